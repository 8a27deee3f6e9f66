"""A model that says it is done, or asks for too much, over real HTTP (overview §7.14)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.model_server import Answer, ModelServer, model_server, say
from tests.integration.test_model_turns import RAN, route, with_models
from tools.models import PendingAction


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A scripted model."""
    RAN.clear()
    async with model_server() as running:
        yield running


async def test_what_waits_is_not_said_to_be_done(tmp_path: Path, server: ModelServer) -> None:
    """A model that says 已重启 beside its call is not quoted with that; what it found is."""
    claim = Answer("内存 92%。好的，已经帮你重启了 web-01。", (("restart", {"host": "web-01"}), ("look", {"host": "web-01"})))
    server.then(claim, say("web-01 已重启成功！"))
    made = await with_models(tmp_path, route(server))
    result = await made.say("看看 web-01，不行就重启")
    await made.close()
    assert RAN == ["look web-01"]
    assert [reply.source for reply in result.replies] == ["model", "confirm_prompt"]
    assert result.replies[0].text == "内存 92%。"


async def test_a_model_that_runs_wild_asks_for_no_more(tmp_path: Path, server: ModelServer) -> None:
    """At most five things are asked to be confirmed in one turn; the model hears of the rest."""
    server.then(Answer("", tuple(("restart", {"host": f"web-{number}"}) for number in range(9))), say("先确认这几台。"))
    made = await with_models(tmp_path, route(server))
    result = await made.say("全部重启")
    assert sum(reply.source == "confirm_prompt" for reply in result.replies) == 5
    assert len(await made.rows(PendingAction)) == 5
    await made.close()
    assert "这一项没有提出" in str(server.requests[1]["messages"][-1]["content"])
    assert RAN == []


async def test_a_model_that_says_it_did_it_without_a_call_is_set_right(tmp_path: Path, server: ModelServer) -> None:
    """已发送 and nothing was called: the person reads that nothing was sent. A plain answer carries no such line."""
    server.then(say("好的，已经通知张三了。"), say("web-01 的内存是 92%。"))
    made = await with_models(tmp_path, route(server))
    said = await made.say("通知张三开会")
    assert said.text == "好的，已经通知张三了。\n（系统提示：这一轮没有创建、修改或发出任何东西，操作都要由你确认之后才会执行。）"
    assert (await made.say("内存多少")).text == "web-01 的内存是 92%。"
    await made.close()


async def test_a_claim_before_the_budget_ends_is_set_right_too(tmp_path: Path, server: ModelServer) -> None:
    """An answer that was cut short carries the same line, before what was found."""
    server.then(Answer("好的，已经通知张三了。", (("look", {"host": "web-01"}),)))
    made = await with_models(tmp_path, route(server), model_calls=1)
    result = await made.say("看看 web-01，再通知张三")
    await made.close()
    said, found = result.text.split("（系统提示：这一轮没有创建、修改或发出任何东西", 1)
    assert said.endswith("好的，已经通知张三了。\n")
    assert "web-01" in found
