"""Whatever the head of a conversation's line is, the line moves on (N-06)."""

from __future__ import annotations

import pytest

from tests.contract.outbox.world import World
from tests.fakes.channel import LOST, answered


@pytest.mark.parametrize("head", ["dead", "unknown", "expired"])
async def test_n_06_no_kind_of_head_blocks_its_conversation(world: World, head: str) -> None:
    """N-06: dead, unknown or expired: the next message of the conversation goes out in the same pass."""
    await world.can_push("push")
    now = world.clock.now_ms()
    ends = {"expires_at_ms": now - 1} if head == "expired" else {}
    await world.put("k1", "头", account_id="mp-main", user_id="o1", cause="push", **ends)
    await world.put("k2", "后面的", account_id="mp-main", user_id="o1", cause="push")
    if head != "expired":
        world.mp.expect(LOST if head == "unknown" else answered(44004, "empty content"))
    await world.delivery().pass_once()
    assert (await world.states())[:2] == [head, "sent"]
    assert world.mp.texts == ["后面的"]


async def test_n_06_an_expired_row_stays_visible(world: World) -> None:
    """N-06: parked rows end after the time, with a record of it."""
    await world.can_push("pull")
    await world.put("k1", "没人取", account_id="mp-main", user_id="o1", cause="inbound", cause_id="1", final=True)
    assert await world.states() == ["parked"]
    world.clock.advance(7 * 86_400 + 1)
    await world.delivery().pass_once()
    (row,) = await world.rows()
    assert (row["status"], row["idempotency_key"]) == ("expired", "k1:0")
