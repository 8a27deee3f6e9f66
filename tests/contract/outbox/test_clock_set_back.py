"""Somebody sets the machine's clock back an hour: what waited does not wait until the clock is there again."""

from __future__ import annotations

from tests.contract.outbox.world import World

_HOUR_S = 3600.0


async def test_an_answer_made_before_the_clock_went_back_goes_out(world: World) -> None:
    await world.put("k1", "答案")
    world.clock.advance(-_HOUR_S)
    await world.delivery().pass_once()
    assert await world.states() == ["sent"]


async def test_a_scheduled_message_keeps_its_time(world: World) -> None:
    at_ms = world.clock.now_ms() + 1_800_000
    await world.put("k1", "明天开会", cause="push", not_before_ms=at_ms)
    world.clock.advance(-_HOUR_S)
    await world.delivery().pass_once()
    assert await world.states() == ["pending"]
    assert (await world.rows())[0]["next_attempt_at_ms"] == at_ms
