"""Jobs on both databases: leases, deaths, cancel, answers to exactly the person, and nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, update

from agent.protocol import Reply, TurnResult
from config import lease
from config.errors import YizhanError
from gateway.jobs import JOB, JobRunner, tell_progress
from gateway.services import Services
from gateway.turns import StopFlag
from tests.fakes.forgetful import ForgetfulDatabase
from tests.integration.jobs.steps import answering, job_row, outgoing, queue_job, until


async def test_s001_39_the_result_goes_to_exactly_the_person_who_asked(services: Services) -> None:
    """S001-39: person, session and conversation are bound at enqueue; the answer carries them. One commit ends the job."""
    job_id = await queue_job(services, user_id="lisi", session_id="s9")
    await JobRunner(services, {"work": answering()}).run(job_id)
    row = await job_row(services, job_id)
    assert (row["status"], row["lease_owner"], row["args"]) == ("done", None, None)
    (sent,) = await outgoing(services)
    assert sent["group_id"] == row["answer_group"]
    assert (sent["user_id"], sent["session_id"], sent["conversation_id"]) == ("lisi", "s9", "c-default")
    assert (sent["cause"], sent["cause_id"], sent["final"]) == ("job", job_id, True)


async def test_r02_a_late_or_doubled_wake_up_does_nothing(services: Services) -> None:
    """R02, R10: a finished job is not run again; two wake-ups at once admit one runner."""
    calls: list[str] = []
    runners = [JobRunner(services, {"work": answering(calls=calls)}) for _ in range(3)]
    job_id = await queue_job(services)
    await asyncio.gather(*(runner.run(job_id) for runner in runners))
    await runners[0].run(job_id)
    assert calls == [job_id]
    assert len(await outgoing(services)) == 1


async def test_a_settlement_whose_answer_was_lost_is_not_done_twice(services: Services) -> None:
    """R02: the database commits the end of a job and is lost before it says so; nothing is stored or run a second time."""
    calls: list[str] = []
    written: list[int] = []

    async def work(_services: Services, job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        calls.append(job["id"])
        services.database = ForgetfulDatabase(services.database, lose=1)
        return TurnResult((Reply("好了"),), writes=(lambda _: written.append(1),))

    job_id = await queue_job(services)
    runner = JobRunner(services, {"work": work})
    await runner.run(job_id)
    await runner.run(job_id)
    assert (await job_row(services, job_id))["status"] == "done"
    assert (calls, len(written), len(await outgoing(services))) == ([job_id], 1, 1)


async def test_n_07_two_failures_end_in_an_apology(services: Services) -> None:
    """N-07: two attempts that fail by themselves, then dead with an apology; no third."""
    calls = []

    async def failing(_services: Services, job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        calls.append(job["attempts"])
        raise YizhanError("no", code="nope")

    job_id = await queue_job(services)
    runner = JobRunner(services, {"work": failing})
    for _ in range(3):
        await runner.run(job_id)
    assert calls == [0, 1]
    row = await job_row(services, job_id)
    assert (row["status"], row["attempts"], row["error_code"]) == ("dead", 2, "nope")
    (sent,) = await outgoing(services)
    assert (
        "抱歉" in sent["payload"]["part"]["text"]
        if "part" in sent["payload"]
        else "抱歉" in json.dumps(sent["payload"], ensure_ascii=False)
    )


async def test_n_07_five_deaths_end_in_an_apology(services: Services) -> None:
    """N-07: a job whose process died five times is dead; R09, R13: it is taken over by its lease's end, not by who held it."""
    calls: list[str] = []
    runner = JobRunner(services, {"work": answering(calls=calls)})
    job_id = await queue_job(services, status="running", deaths=4, lease_owner="gone", lease_until_ms=1, fence=7)
    await runner.run(job_id)
    assert calls == []
    row = await job_row(services, job_id)
    assert (row["status"], row["deaths"], row["fence"]) == ("dead", 5, 8)
    fewer = await queue_job(services, status="running", deaths=3, lease_owner="gone", lease_until_ms=1)
    await runner.run(fewer)
    assert calls == [fewer]
    assert (await job_row(services, fewer))["status"] == "done"


async def test_n_02_a_paused_worker_that_wakes_writes_nothing(services: Services) -> None:
    """N-02, R09: every write checks the fence; who lost the claim leaves no trace and sends nothing."""
    started, go = asyncio.Event(), asyncio.Event()

    async def paused(_services: Services, _job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        started.set()
        await go.wait()
        return TurnResult(replies=(Reply("too late"),))

    job_id = await queue_job(services)
    task = asyncio.create_task(JobRunner(services, {"work": paused}).run(job_id))
    await started.wait()

    def take_over(connection: Connection) -> None:
        connection.execute(update(JOB).where(JOB.c.id == job_id).values(lease_until_ms=lease.now_ms(connection) - 1))

    await services.database.write(take_over)
    other = JobRunner(services, {"work": answering("the other one")})
    await other.run(job_id)
    go.set()
    await task
    assert len(await outgoing(services)) == 1
    assert (await job_row(services, job_id))["status"] == "done"


async def test_r03_cancel_is_a_flag_that_the_running_job_sees(services: Services) -> None:
    """R03: cancel reaches running work within seconds, by SQL; a cancelled job that never ran does not start."""

    async def long(_services: Services, _job: Mapping[str, Any], stop: StopFlag) -> TurnResult:
        await stop.wait()
        return TurnResult(outcome="stopped")

    job_id = await queue_job(services)
    task = asyncio.create_task(JobRunner(services, {"work": long}).run(job_id))

    async def is_running() -> bool:
        return bool((await job_row(services, job_id))["status"] == "running")

    await until(is_running)
    await services.database.write(lambda c: c.execute(update(JOB).where(JOB.c.id == job_id).values(cancel_requested=True)))
    await asyncio.wait_for(task, 5)
    assert (await job_row(services, job_id))["status"] == "cancelled"
    calls: list[str] = []
    never = await queue_job(services, cancel_requested=True)
    await JobRunner(services, {"work": answering(calls=calls)}).run(never)
    assert calls == []
    assert (await job_row(services, never))["status"] == "cancelled"


async def test_a_stopping_worker_gives_its_job_back_uncounted(services: Services) -> None:
    async def endless(_services: Services, _job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        await asyncio.Event().wait()
        raise AssertionError

    job_id = await queue_job(services)
    runner = JobRunner(services, {"work": endless})
    task = asyncio.create_task(runner.run(job_id))

    async def is_running() -> bool:
        return bool((await job_row(services, job_id))["status"] == "running")

    await until(is_running)
    await runner.close(0.05)
    await task
    row = await job_row(services, job_id)
    assert (row["status"], row["lease_owner"], row["attempts"], row["deaths"]) == ("queued", None, 0, 0)


async def test_progress_is_told_at_most_once(services: Services) -> None:
    job_id = await queue_job(services)
    row = await job_row(services, job_id)
    for text in ("已完成一半", "快好了"):
        await services.database.write(lambda c, t=text: tell_progress(services, c, row, t))  # type: ignore[misc]
    (sent,) = await outgoing(services)
    assert "已完成一半" in json.dumps(sent["payload"], ensure_ascii=False)
