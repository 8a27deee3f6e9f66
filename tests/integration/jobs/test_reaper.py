"""The reaper: work past its lease is rung again, not too much and not twice."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from config import lease
from config.ids import new_id
from gateway.jobs import JOB
from gateway.queue import WORK_QUEUES
from gateway.reaper import AT_MOST, Reaper, overdue
from gateway.services import Services
from tests.integration.jobs.steps import queue_job


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


async def test_work_stamped_before_the_clock_went_back_is_rung(services: Services) -> None:
    """A clock set back an hour makes every stamp a future one; work that was left behind does not wait for it."""
    now = services.clock.now_ms()
    ahead = now + 3_600_000
    job = await queue_job(services, status="running", lease_owner="gone", lease_until_ms=1, created_at_ms=ahead, rung_at_ms=ahead)
    assert await services.database.write(lambda c: overdue(c, now)) == [("task", job)]
    assert await services.database.write(lambda c: overdue(c, now + 1_000)) == []
