"""The commit of a turn when the database is lost right then, or cannot take what the turn wants to store."""

from __future__ import annotations

from sqlalchemy import Connection, select

from agent.protocol import InboundMessage, JobRequest, Reply, TurnResult
from config.columns import table_of
from gateway.models import Job
from tests.contract.road.road import Road
from tests.fakes.forgetful import ForgetfulDatabase


async def test_a_commit_whose_answer_was_lost_is_not_done_twice(road: Road) -> None:
    """N-02, N-03: the answer, what was written with it and its job exist once, and the person gets the answer in time."""
    written: list[int] = []

    async def script(message: InboundMessage) -> TurnResult:
        road.runner._database = ForgetfulDatabase(road.database, lose=1)
        return TurnResult((Reply("排好了"),), writes=(lambda _: written.append(1),), job=JobRequest("doctor", {}))

    road.turns.script = script
    assert await road.say("诊断一下", user="lisi") == "排好了"
    jobs = await road.database.read(lambda c: c.execute(select(table_of(Job))).all())
    assert (len(road.turns.asked), len(written), len(jobs), len(await road.outgoing())) == (1, 1, 1, 1)


async def test_what_cannot_be_stored_is_apologized_for_once(road: Road) -> None:
    """N-07: a turn whose writes the database refuses is not run again and again; its person is told."""

    def refuse(_connection: Connection) -> None:
        raise ValueError("no")

    async def script(message: InboundMessage) -> TurnResult:
        return TurnResult((Reply("好"),), writes=(refuse,))

    road.turns.script = script
    assert "抱歉" in await road.say("存不下", user="lisi")
    assert len(road.turns.asked) == 1
    assert [(row.status, row.error_code) for row in await road.inbound()] == [("failed", "not_storable")]
