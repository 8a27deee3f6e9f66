"""Wake-ups through RQ on a real Valkey: only our entry, ids only, fair slots, and Redis away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import redis
from rq import Callback, Queue
from rq.serializers import JSONSerializer

from agent.protocol import TurnResult
from config.ids import new_id
from gateway import worker
from gateway.jobs import JobFunction
from gateway.queue import ENTRY
from gateway.services import Services
from gateway.turns import StopFlag
from tests.integration.jobs.steps import answering, job_row, outgoing, queue_job, until


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
    before: list[int] = []
    done: list[str] = []
    gate = asyncio.Event()

    async def slow(_services: Services, job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        active.append(job["tenant_id"])
        if job["tenant_id"] == "default":
            await gate.wait()
        else:
            before.append(active.count("default"))  # later ones may use all slots again: nobody else waits then
        done.append(job["tenant_id"])
        return TurnResult(outcome="empty")

    crowd = [await queue_job(services) for _ in range(6)]
    single = await queue_job(services, tenant="other")
    work = running({"work": slow})
    for job_id in (*crowd, single):
        await services.bell.ring("task", job_id)
    await until(lambda: "other" in done)
    assert before == [2]
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
