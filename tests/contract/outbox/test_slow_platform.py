"""A platform that answers slowly keeps its own messages waiting and nobody else's."""

from __future__ import annotations

from sqlalchemy import Connection

from gateway import outbox_claims
from gateway.delivery import CONCURRENT
from gateway.outbox_claims import PER_ACCOUNT, Claimed
from tests.contract.outbox.world import World


async def _claim(world: World, busy: dict[str, int]) -> list[str]:
    def claim(connection: Connection) -> list[Claimed]:
        now = world.clock.now_ms()
        return outbox_claims.claim(connection, "d1", now, CONCURRENT, lambda _c, _row: None, busy)[0]

    return [claimed.row["account_id"] for claimed in await world.database.write(claim)]


async def test_a_slow_account_does_not_take_every_slot(world: World) -> None:
    await world.can_push("push")
    for number in range(CONCURRENT + 5):  # all of them older than the follower's
        await world.put(f"w{number}", user_id=f"u{number}")
    world.clock.advance(0.001)
    await world.put("m1", account_id="mp-main", user_id="o1", cause="inbound", cause_id="1")
    assert await _claim(world, {"wecom-main": PER_ACCOUNT - 3}) == ["wecom-main"] * 3 + ["mp-main"]
    assert await _claim(world, {"wecom-main": PER_ACCOUNT}) == []
    assert await _claim(world, {}) == ["wecom-main"] * PER_ACCOUNT
