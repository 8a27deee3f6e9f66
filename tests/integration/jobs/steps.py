"""Steps shared by the tests of jobs: queue one, run a worker in this loop, look at rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import insert, select

from agent.protocol import Reply, TurnResult
from config.columns import table_of
from config.ids import new_id
from gateway import worker
from gateway.jobs import JOB, JobFunction
from gateway.models import OutboxMessage
from gateway.services import Services
from gateway.turns import StopFlag

OUTBOX = table_of(OutboxMessage)


async def working(services: Services, functions: dict[str, JobFunction]) -> None:
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
