"""重新发起: an action that ended unanswered, proposed once more (agent.md §5)."""

from __future__ import annotations

from gateway.outbox_states import ROWS
from tests.contract.confirm.world import World


async def test_what_was_proposed_again_is_not_proposed_twice(world: World) -> None:
    """重新发起 takes the place of a withdrawn action, too; once that is decided nothing is left to bring back."""
    prompt = await world.propose()
    lost = ROWS.update().where(ROWS.c.action_id == prompt.action_id).values(status="dead")
    await world.database.write(lambda c: c.execute(lost))
    await world.tools.executor.reap()
    again = await world.tools.confirm.reissue(world.actor())
    await world.store(again)
    assert again.prompt is not None
    await world.deliver(again.prompt)
    assert await world.answer("确认") == "已部署 web-01"
    assert (await world.tools.confirm.reissue(world.actor())).text == "没有可以重新发起的操作。"
    assert len(world.ran) == 1
