"""Cases of the model area (agent) and of answers written by models (channel), over real HTTP with the scripted server."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent import texts
from agent.llm.base import ChatMessage, ModelError, ModelReply, ToolOffer
from agent.llm.openai_compat import OpenAICompatible
from agent.models import Turn
from agent.protocol import Deadline
from config.clock import Clock
from config.schema import ModelRoute
from tests.fakes.assistant import Assistant, make_assistant, settings_for
from tests.fakes.model_server import Answer, Misbehaviour, ModelServer, broken, call, model_server, say
from tools.base import Tool, ToolContext, ToolResult
from tools.models import PendingAction

CLOCK = Clock()
SCHEMA = {"type": "object", "properties": {"host": {"type": "string"}}, "required": ["host"], "additionalProperties": False}
TWO = (("look", {"host": "web-01"}), ("look", {"host": "db-02"}))


async def look(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(f"{arguments['host']} 正常")


LOOK = Tool("look", "查看服务器", SCHEMA, look)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as running:
        yield running


def route(server: ModelServer, name: str = "local", **extra: Any) -> dict[str, Any]:
    return {"name": name, "base_url": server.url, "model": "fake", "local": True, "timeout_s": 30, **extra}


async def complete(server: ModelServer, timeout_s: float = 30.0) -> ModelReply:
    model = OpenAICompatible(ModelRoute.model_validate(route(server)), CLOCK)
    offers = (ToolOffer("look", "查看服务器", SCHEMA),)
    await model.open()
    try:
        return await model.complete((ChatMessage("user", "看看"),), offers, Deadline(CLOCK.monotonic() + timeout_s))
    finally:
        await model.close()


async def assistant(folder: Path, *routes: dict[str, Any], tenant: Any = None) -> Assistant:
    settings = settings_for(folder, tenant, models=list(routes))
    return await make_assistant(folder, settings=settings, clock=CLOCK, tools=[LOOK])


async def test_m02_the_timeout_is_total(server: ModelServer) -> None:
    """A server that sends a byte every 50 ms never runs into a timeout per read."""
    server.then(broken("trickle"))
    started = time.monotonic()
    with pytest.raises(ModelError) as caught:
        await complete(server, 0.5)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("missing_index", id="m03_index_missing"),
        pytest.param("id_missing_everywhere", id="m03_index_and_id_missing"),
        pytest.param("reused_index_0", id="m04_index_0_for_every_call"),
        pytest.param("id_in_first_delta_only", id="m10_id_absent_in_later_deltas"),
    ],
)
async def test_m03_m04_m10_parallel_calls_are_put_together(server: ModelServer, wrong: Misbehaviour) -> None:
    server.then(Answer("", TWO, wrong=wrong))
    reply = await complete(server)
    assert [(one.name, json.loads(one.arguments)) for one in reply.tool_calls] == list(TWO)


async def test_m05_merged_arguments_are_refused_at_once(tmp_path: Path, server: ModelServer) -> None:
    """The error surfaces in this turn, is repaired, and nothing broken is kept for the next one."""
    made = await assistant(tmp_path, route(server))
    server.then(call("look", '{"host": "a"}{"host": "b"}'), call("look", {"host": "a"}), say("都正常"), say("不客气"))
    assert (await made.say("看看 a 和 b")).text == "都正常"
    await made.say("谢谢")
    for message in server.requests[-1]["messages"]:
        for one in message.get("tool_calls", ()):
            json.loads(one["function"]["arguments"])
    await made.close()


def test_m08_no_proxy_library_and_a_lock_with_hashes() -> None:
    root = Path(__file__).resolve().parents[2]
    assert "litellm" not in (root / "pyproject.toml").read_text("utf-8")
    lock = root / "requirements.lock"
    if lock.exists():
        text = lock.read_text("utf-8")
        assert "litellm" not in text
        assert "--hash=sha256:" in text


async def test_m09_no_silent_fallback_from_local_to_cloud(tmp_path: Path, server: ModelServer) -> None:
    async with model_server(rule=lambda request: say("云上的回答")) as cloud:
        server.rule = lambda request: broken("error_500_html")
        routes = (route(server), route(cloud, "cloud", local=False))
        closed = await assistant(tmp_path / "a", *routes)
        assert (await closed.say("你好")).outcome == "failed"
        assert cloud.requests == []
        opened = await assistant(tmp_path / "b", *routes, tenant={"allow_external_models": True})
        assert texts.EXTERNAL_NOTE.format(route="cloud") in (await opened.say("你好")).text
        (row,) = await opened.rows(Turn)
        assert [entry["route"] for entry in row.routes_tried] == ["local", "cloud"]
        await closed.close()
        await opened.close()


async def test_ses_22_a_lost_conversation_is_answered_with_a_new_one(tmp_path: Path, server: ModelServer) -> None:
    made = await assistant(tmp_path, route(server, extra_body={"conversation_id": "gone"}))
    server.then(broken("conversation_404"), say("你好"))
    assert (await made.say("你好")).text == "你好"
    assert ["conversation_id" in request for request in server.requests] == [True, False]
    await made.close()


async def test_del_31_text_before_and_after_a_tool_call_arrives(tmp_path: Path, server: ModelServer) -> None:
    made = await assistant(tmp_path, route(server))
    server.then(call("look", {"host": "web-01"}, text="我先看看。"), say("web-01 正常。"))
    assert (await made.say("web-01 怎么样")).text == "我先看看。\nweb-01 正常。"
    await made.close()


async def test_del_32_commentary_is_said_once(tmp_path: Path, server: ModelServer) -> None:
    made = await assistant(tmp_path, route(server))
    server.then(call("look", {"host": "web-01"}, text="好的"), say("好的，结果：正常"))
    result = await made.say("web-01 怎么样")
    assert [reply.text for reply in result.replies] == ["好的，结果：正常"]
    await made.close()


async def test_oa5_06_a_timed_out_turn_gives_the_error_and_the_way_on(tmp_path: Path, server: ModelServer) -> None:
    made = await assistant(tmp_path, route(server))
    await made.services.router.warm()
    server.then(broken("hang"), say("晴天"))
    result = await made.say("明天天气", deadline_s=0.5)
    assert result.text == "刚才没能完成(超时)，回复 重试 再来一次"
    assert (await made.say("明天天气")).text == "晴天"
    assert await made.rows(PendingAction) == []
    await made.close()
