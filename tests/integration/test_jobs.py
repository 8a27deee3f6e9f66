"""Jobs and the loop worker, on a real Valkey and real databases: leases, deaths, cancel, order, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Callback, Queue
from rq.serializers import JSONSerializer
from sqlalchemy import Connection, insert, select, update

from agent.protocol import Reply, TurnResult
from config import lease
from config.columns import table_of
from config.errors import YizhanError
from config.ids import new_id
from config.settings import demo_settings
from gateway import worker
from gateway.app import build, close
from gateway.jobs import JOB, JobFunction, JobRunner, tell_progress
from gateway.migrate import upgrade
from gateway.models import OutboxMessage
from gateway.queue import ENTRY, WORK_QUEUES
from gateway.reaper import AT_MOST, Reaper, overdue
from gateway.services import Services
from gateway.turns import StopFlag

OUTBOX = table_of(OutboxMessage)


@pytest.fixture(params=["sqlite", "postgresql"])
async def services(request: pytest.FixtureRequest, tmp_path: Path, valkey: str) -> AsyncIterator[Services]:
    database_url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    settings = demo_settings(tmp_path, redis_url=valkey, database_url=database_url, worker={"slots": 4, "turn_slots": 1})
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    built = await build(settings)
    yield built
    await close(built)


@pytest.fixture
def running(services: Services) -> Callable[[dict[str, JobFunction]], asyncio.Task[None]]:
    def start(functions: dict[str, JobFunction]) -> asyncio.Task[None]:
        return asyncio.create_task(_work(services, functions))

    return start


async def _work(services: Services, functions: dict[str, JobFunction]) -> None:
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run_worker(services, stop))
    await until(lambda: worker._runtime is not None and worker._runtime._services is services)
    assert worker._runtime is not None
    worker._runtime.jobs._functions = functions
    try:
        await asyncio.Event().wait()
    finally:
        stop.set()
        await task


async def until(condition: Callable[[], Any], limit_s: float = 15.0) -> None:
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value if not asyncio.iscoroutine(value) else await value:
            return
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


async def queue_job(services: Services, name: str = "work", *, tenant: str = "default", **values: Any) -> str:
    job_id = new_id("j")
    row = {
        "id": job_id,
        "tenant_id": tenant,
        "account_id": "wecom-main",
        "conversation_id": f"c-{tenant}",
        "session_id": "s1",
        "user_id": "zhangsan",
        "queue": "task",
        "name": name,
        "args": {"n": 1},
        "status": "queued",
        "attempts": 0,
        "deaths": 0,
        "cancel_requested": False,
        "fence": 0,
        "created_at_ms": services.clock.now_ms(),
    } | values
    await services.database.write(lambda c: c.execute(insert(JOB).values(**row)))
    return job_id


async def job_row(services: Services, job_id: str) -> Mapping[str, Any]:
    found = await services.database.read(lambda c: c.execute(select(JOB).where(JOB.c.id == job_id)).mappings().one())
    return {str(key): value for key, value in found.items()}


async def outgoing(services: Services) -> list[Mapping[str, Any]]:
    query = select(OUTBOX).order_by(OUTBOX.c.seq)
    rows = await services.database.read(lambda c: c.execute(query).mappings().all())
    return [{str(key): value for key, value in row.items()} for row in rows]


def answering(text: str = "做完了", calls: list[str] | None = None) -> JobFunction:
    async def function(_services: Services, job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        if calls is not None:
            calls.append(job["id"])
        return TurnResult(replies=(Reply(text),))

    return function


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


async def test_jobs_run_through_rq_and_the_shared_loop(
    services: Services, running: Callable[[dict[str, JobFunction]], asyncio.Task[None]]
) -> None:
    """R04: every wake-up has an id of its own; R07: rings come after the commit. Many jobs share one loop."""
    calls: list[str] = []
    work = running({"work": answering(calls=calls)})
    jobs = [await queue_job(services) for _ in range(8)]
    for job_id in jobs:
        await services.bell.ring("task", job_id)
        await services.bell.ring("task", job_id)
    await until(lambda: len(calls) == 8)
    assert sorted(calls) == sorted(jobs)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert len(await outgoing(services)) == 8


async def test_n_19_a_wake_up_can_only_name_our_entry(
    services: Services, running: Callable[[dict[str, JobFunction]], asyncio.Task[None]], valkey: str, tmp_path: Path
) -> None:
    """N-19: whatever function, callback or arguments Redis holds, only the fixed entry runs, and jobs only from the table."""
    calls: list[str] = []
    work = running({"work": answering(calls=calls)})
    with redis.Redis.from_url(valkey) as connection:
        queue = Queue("task", connection=connection, serializer=JSONSerializer)
        target, bad = tmp_path / "owned", Callback("os.abort")
        queue.enqueue_call("os.mkdir", args=(str(target),), job_id=new_id("w"))
        queue.enqueue_call(ENTRY, args=("task", "nothing"), job_id=new_id("w"), on_success=bad, on_failure=bad)
        unknown = await queue_job(services, "os.system", args={"command": "true"})
        await services.bell.ring("task", unknown)
        good = await queue_job(services)
        await services.bell.ring("task", good)
        await until(lambda: calls == [good])
        assert not target.exists()

        async def buried() -> bool:
            return bool((await job_row(services, unknown))["status"] == "dead")

        await until(buried)
        assert (await job_row(services, unknown))["error_code"] == "unknown_job"
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_the_queue_holds_ids_only(services: Services, valkey: str) -> None:
    """What is in Redis is JSON with a queue's name and a key; ids are sortable and of letters and digits."""
    await services.bell.ring("turn", "c1")
    await services.bell.ring("turn", "c2")
    with redis.Redis.from_url(valkey) as connection:
        queue = Queue("turn", connection=connection, serializer=JSONSerializer)
        assert [worker.wakeup_view(job) for job in queue.jobs] == [
            {"function": ENTRY, "args": ["turn", "c1"]},
            {"function": ENTRY, "args": ["turn", "c2"]},
        ]
        assert queue.job_ids == sorted(queue.job_ids)
        assert all(job_id.isalnum() for job_id in queue.job_ids)
        assert all(job.failure_ttl is not None and 0 < job.failure_ttl <= 86400 for job in queue.jobs)
        assert all(connection.ttl(job.key) <= 86400 for job in queue.jobs)


async def test_n_09_half_the_slots_while_another_tenant_waits(
    services: Services, running: Callable[[dict[str, JobFunction]], asyncio.Task[None]]
) -> None:
    """N-09: a tenant that filled the slots goes behind another one's job at half of them."""
    active: list[str] = []
    done: list[str] = []
    gate = asyncio.Event()

    async def slow(_services: Services, job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        active.append(job["tenant_id"])
        if job["tenant_id"] == "default":
            await gate.wait()
        done.append(job["tenant_id"])
        return TurnResult(outcome="empty")

    crowd = [await queue_job(services) for _ in range(6)]
    single = await queue_job(services, tenant="other")
    work = running({"work": slow})
    for job_id in (*crowd, single):
        await services.bell.ring("task", job_id)
    await until(lambda: "other" in done)
    assert active.count("default") <= 2
    gate.set()
    await until(lambda: len(done) == 7)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_redis_away_costs_time_only(services: Services) -> None:
    """A ring without Redis returns quietly within a second, local listeners still hear it, and the reaper rings again."""
    from gateway.queue import RedisBell

    heard: list[str] = []
    bell = RedisBell("unix:///nowhere/valkey.sock")
    bell.listen("outbox", heard.append)
    started = time.monotonic()
    await bell.ring("turn", "c1")
    await bell.ring("outbox", "g1")
    assert time.monotonic() - started < 1.5
    assert heard == ["g1"]
    assert not await bell.is_up()
    await bell.close()


async def test_rings_reach_other_processes(services: Services, valkey: str) -> None:
    from gateway.queue import RedisBell

    heard: list[str] = []
    other = RedisBell(valkey)
    following = asyncio.create_task(other.follow("outbox", heard.append))
    await until(lambda: heard == [""])
    await services.bell.ring("outbox", "g1")
    await until(lambda: heard == ["", "g1"])
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await other.close()


async def test_n_09_the_reaper_rings_at_most_64_and_none_twice(services: Services) -> None:
    """N-09, R12, R15: work past its lease is rung, 64 a pass at most, none twice within 30 s; held and fresh rows are not."""
    now = services.clock.now_ms()
    for _ in range(AT_MOST + 5):
        await queue_job(services, status="running", lease_owner="gone", lease_until_ms=1, created_at_ms=now - 60_000)
    await queue_job(services)

    def hold(connection: Connection) -> None:
        until_ms = lease.now_ms(connection) + 15_000
        values = {"status": "running", "lease_owner": "alive", "lease_until_ms": until_ms, "created_at_ms": now - 60_000}
        job_id = new_id("j")
        row = connection.execute(select(JOB).limit(1)).mappings().one()
        connection.execute(insert(JOB).values(**{str(k): v for k, v in row.items()} | {"id": job_id} | values))

    await services.database.write(hold)
    first = await services.database.write(lambda c: overdue(c, now))
    second = await services.database.write(lambda c: overdue(c, now + 10_000))
    third = await services.database.write(lambda c: overdue(c, now + 31_000))
    assert len(first) == AT_MOST
    assert not set(first) & set(second)
    assert len(third) == AT_MOST
    assert {queue for queue, _ in first} <= set(WORK_QUEUES)


async def test_one_reaper_at_a_time(services: Services) -> None:
    """R10, R12: of two reapers one works; when it is gone the other takes over."""
    await queue_job(services, status="running", lease_owner="gone", lease_until_ms=1, created_at_ms=1)
    first, second = Reaper(services), Reaper(services)
    second._owner = "somebody-else"
    assert await first.pass_once() == 1
    await queue_job(services, status="running", lease_owner="gone", lease_until_ms=1, created_at_ms=1)
    assert await second.pass_once() == 0
    assert await first.pass_once() == 1
