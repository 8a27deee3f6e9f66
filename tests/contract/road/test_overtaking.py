"""An answer in the HTTP response must not overtake an earlier one that is being pushed this moment."""

from __future__ import annotations

from tests.contract.road.road import Road
from tests.contract.road.test_race import slow


async def test_a_quick_answer_goes_behind_the_push_before_it(road: Road) -> None:
    """Answers arrive in order: while the late answer to the first question is due for push, the second is pushed after it."""
    road.turns.script = slow(1.8, "第一个")
    await road.say("慢")

    async def due() -> bool:
        return [row.status for row in await road.outgoing()] == ["pending"]

    await road.until(due)
    road.turns.script = None
    assert await road.say("快") == ""
    rows = await road.outgoing()
    assert [(row.payload["text"], row.status) for row in rows] == [("第一个", "pending"), ("答:快", "pending")]


async def test_a_push_that_is_held_up_does_not_hold_up_answers(road: Road) -> None:
    """N-06: a head that failed and waits for its next attempt blocks nobody's quick answer."""
    road.turns.script = slow(1.8, "第一个")
    await road.say("慢")

    async def due() -> bool:
        return [row.status for row in await road.outgoing()] == ["pending"]

    await road.until(due)
    await road.database.write(
        lambda c: c.exec_driver_sql("UPDATE outbox_message SET attempts = 1, next_attempt_at_ms = 99999999999999")
    )
    road.turns.script = None
    assert await road.say("快") == "答:快"
