"""A stored body that nobody can read any more ends its own row and holds up nobody."""

from __future__ import annotations

from sqlalchemy import update

from gateway import wire
from gateway.inbox import Arrival
from memory.keys import conversation_id
from tests.contract.road.road import INBOUND, Road

_PEER = conversation_id("acme", "wecom-main", "single", "zhangsan")


async def test_an_unreadable_message_does_not_block_its_conversation(road: Road) -> None:
    """N-06: the row is dead with its reason; what stands behind it is answered."""
    for text, lane in (("坏的", "turn"), ("坏的命令", "fast"), ("好的那条", "single")):
        await road.inbox.submit(Arrival(road.message(text), lane))  # type: ignore[arg-type]
    broken = INBOUND.c.lane.in_(("turn", "fast"))
    await road.database.write(lambda c: c.execute(update(INBOUND).where(broken).values(body={"of": "another time"})))
    await road.dispatcher.run_waiting(_PEER, dict(road.channels))  # type: ignore[arg-type]
    assert [m.text for m in road.turns.asked] == ["好的那条"]
    assert [(r.status, r.error_code) for r in await road.inbound()] == [
        ("dead", "unreadable"),
        ("dead", "unreadable"),
        ("done", None),
    ]


def test_fields_of_a_newer_version_are_dropped(road: Road) -> None:
    """Rolling upgrades: an older process reads what a newer one stored."""
    message = road.message("你好")
    stored = {**wire.to_json(message), "mood": "new"}
    assert wire.from_json(stored).text == "你好"
