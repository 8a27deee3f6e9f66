"""Confirming, rejecting, several at once, the newest-message rule, cards: agent.md §5 with N-15 to N-18."""

from __future__ import annotations

from tests.contract.confirm.world import World


async def test_a_confirmed_action_runs_once_and_says_so(world: World) -> None:
    """S001-48, S001-49: shown, not executed; executed after 确认, once."""
    prompt = await world.propose()
    assert prompt.text == (
        "即将执行以下操作，请确认\n操作：部署\n主机：“web-01”\n回复「确认 1」执行，回复「取消 1」放弃（10 分钟内有效）"
    )
    assert world.ran == []
    assert await world.answer("确认") == "已部署 web-01"
    assert world.ran == [(f"act:{prompt.action_id}", {"host": "web-01"})]
    assert await world.answer("确认") == "这项已经执行过了，不会重复执行。结果：已部署 web-01"
    assert len(world.ran) == 1
