"""One commit for many messages: each is still stored, refused and counted for itself."""

from __future__ import annotations

import asyncio

import pytest

from config.database import Database
from config.schema import Limits
from gateway.inbox import Arrival
from tests.contract.road.road import Road, build_road


async def test_a_message_the_database_cannot_take_turns_nobody_else_away(road: Road) -> None:
    """N-01: of messages that share a commit, only the impossible one is not stored."""
    bad = road.message("坏", user="bad", message_id="\ud800")
    messages = [road.message("甲", user="u1"), bad, road.message("乙", user="u2")]
    stored = await asyncio.gather(*(road.inbox.submit(Arrival(m, "none")) for m in messages), return_exceptions=True)
    assert [isinstance(outcome, Exception) for outcome in stored] == [False, True, False]
    assert [row.user_id for row in await road.inbound()] == ["u1", "u2"]


async def test_two_deliveries_in_one_commit_are_counted_as_two(road: Road) -> None:
    """DUP-06: the same message twice in one commit is one row that was delivered twice."""
    message = road.message("一次")
    seen = await asyncio.gather(*(road.inbox.submit(Arrival(message, "turn")) for _ in range(2)))
    assert [(one.new, one.deliveries) for one in seen] == [(True, 1), (False, 2)]
    assert (await road.inbox.submit(Arrival(message, "turn"))).deliveries == 3
    assert [row.deliveries for row in await road.inbound()] == [3]


async def test_what_an_earlier_message_took_along_is_not_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-09: a message beyond the limit that already joined the turn of one before it is answered, not refused as well."""
    road = await build_road(database, monkeypatch, limits=Limits(turns_per_minute=1))
    first, second = road.message("帮我"), road.message("建个待办")
    seen = await asyncio.gather(*(road.inbox.submit(Arrival(m, "turn", "p1")) for m in (first, second)))
    assert seen[0].held is not None
    assert seen[0].held.batch is not None
    assert seen[0].held.batch.message.text == "帮我\n建个待办"
    assert [row.status for row in await road.inbound()] == ["running", "running"]
    assert (await road.inbox.submit(Arrival(road.message("还有"), "turn", "p1"))).status == "refused"


async def test_turns_before_the_clock_went_back_are_not_this_minutes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-09: after a clock was set back an hour, what a person said in that hour does not count as said in the last minute."""
    road = await build_road(database, monkeypatch, limits=Limits(turns_per_minute=1))
    now = road.message("现在").received_at_ms
    seen = [
        await road.inbox.submit(Arrival(road.message(text, received_at_ms=at_ms), "turn"))
        for text, at_ms in (("拨回之前", now + 3_600_000), ("拨回之后", now), ("又一条", now))
    ]
    assert [one.status for one in seen] == ["received", "received", "refused"]
