"""A bell rings only for what is committed: work is never visible before its transaction, nor after one that was undone."""

from __future__ import annotations

from agent.protocol import InboundMessage, JobRequest, Reply, TurnResult
from config.database import Database, open_database
from tests.contract.road.road import Road


class CheckingBell:
    """At every ring, looks with a connection of its own whether what it rings for is there."""

    def __init__(self, other: Database) -> None:
        self._other = other
        self.seen: list[tuple[str, bool]] = []

    async def ring(self, queue: str, key: str) -> None:
        """Look from outside."""
        table = {"outbox": "outbox_message WHERE group_id", "task": "job WHERE id"}[queue]
        query = f"SELECT count(*) FROM {table} = '{key}'"  # noqa: S608 -- ids of our own
        found = await self._other.read(lambda c: c.exec_driver_sql(query).scalar_one())
        self.seen.append((queue, bool(found)))


async def _other(road: Road) -> Database:
    """A second process's connection to the road's database."""
    url = await road.database.read(lambda c: c.engine.url.render_as_string(hide_password=False))
    return open_database(url)


async def test_r07_a_job_rings_after_its_commit(road: Road) -> None:
    """R07: when the bell rings another process sees the job and the answer; a turn whose commit fails rings for nothing."""
    fail = False

    def undo(_connection: object) -> None:
        raise RuntimeError("this transaction does not happen")

    async def script(message: InboundMessage) -> TurnResult:
        writes = (undo,) if fail else ()
        return TurnResult((Reply("好的"),), "deferred", writes=writes, job=JobRequest("doctor", {}))

    other = await _other(road)
    road.turns.script = script
    bell = CheckingBell(other)
    object.__setattr__(road.runner._services, "bell", bell)
    try:
        await road.say("诊断一下")

        async def rung() -> bool:
            return ("task", True) in bell.seen

        await road.until(rung)
        assert all(there for _, there in bell.seen)
        before, fail = len(bell.seen), True
        await road.say("再诊断一下", user="lisi")
        assert "task" not in [queue for queue, _ in bell.seen[before:]]
        assert await road.database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM job").scalar_one()) == 1
    finally:
        await other.close()
