"""The wire client against a model server that misbehaves: every fault is a typed failure within the deadline, or repaired."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.llm.base import ChatMessage, ModelError, ModelReply, ToolOffer
from agent.llm.openai_compat import OpenAICompatible
from agent.protocol import Deadline
from config.clock import Clock
from config.schema import ModelRoute
from tests.fakes.model_server import Answer, Misbehaviour, ModelServer, broken, call, model_server, say

OFFER = ToolOffer("look", "查一下", {"type": "object", "properties": {"host": {"type": "string"}}})
ASK = (ChatMessage("system", "规则"), ChatMessage("user", "你好"))
CLOCK = Clock()


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as running:
        yield running


async def ask(server: ModelServer, *, timeout_s: float = 30.0, stream: bool = True, **route: Any) -> ModelReply:
    model = OpenAICompatible(ModelRoute(name="r", base_url=server.url, model="fake", **route), CLOCK, stream=stream)
    try:
        return await model.complete(ASK, (OFFER,), Deadline(CLOCK.monotonic() + timeout_s))
    finally:
        await model.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_text_and_usage(server: ModelServer, stream: bool) -> None:
    server.then(say("你好，有什么事？"))
    reply = await ask(server, stream=stream)
    assert reply.text == "你好，有什么事？"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (100, 20)


async def test_an_endpoint_that_cannot_stream_is_understood(server: ModelServer) -> None:
    server.then(broken("no_stream_body"))
    assert (await ask(server)).text == "你好"


async def test_unknown_usage_is_estimated_and_says_so(server: ModelServer) -> None:
    server.then(Answer("你好", usage=None))
    reply = await ask(server)
    assert reply.usage.estimated
    assert reply.usage.prompt_tokens > 0


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ("busy_429", "busy"),
        ("error_500_html", "server"),
        ("refused_400", "refused"),
        ("cut_stream", "bad_body"),
        ("bad_json", "bad_body"),
        ("empty_stream", "empty"),
        ("empty_answer", "empty"),
    ],
)
async def test_faults_are_typed(server: ModelServer, wrong: Misbehaviour, kind: str) -> None:
    server.then(broken(wrong))
    with pytest.raises(ModelError) as caught:
        await ask(server)
    assert caught.value.kind == kind
    assert len(server.requests) == 1, "the wire client never retries by itself"


@pytest.mark.parametrize("wrong", ["hang", "slow_headers", "trickle"])
async def test_the_deadline_is_total(server: ModelServer, wrong: Misbehaviour) -> None:
    """M02: a server that sends a byte now and then does not keep us past the deadline."""
    server.then(broken(wrong))
    started = time.monotonic()
    with pytest.raises(ModelError) as caught:
        await ask(server, timeout_s=0.4)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - started < 2.0


async def test_nobody_there(server: ModelServer) -> None:
    await server.close()
    with pytest.raises(ModelError) as caught:
        await ask(server)
    assert caught.value.kind == "connect"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("none", id="plain"),
        pytest.param("missing_index", id="M03"),
        pytest.param("reused_index_0", id="M04"),
        pytest.param("id_in_first_delta_only", id="M10"),
        pytest.param("id_missing_everywhere", id="M03-position"),
    ],
)
async def test_parallel_calls_are_put_together(server: ModelServer, wrong: Misbehaviour) -> None:
    """M03, M04, M10: by index if there, else id, else position; a new id on a used index is a new call."""
    server.then(Answer("", (("look", {"host": "web-01"}), ("look", {"host": "db-02"})), wrong=wrong))
    reply = await ask(server)
    assert [json.loads(one.arguments) for one in reply.tool_calls] == [{"host": "web-01"}, {"host": "db-02"}]
    assert len({one.id for one in reply.tool_calls}) == 2


@pytest.mark.parametrize("arguments", ['{"host": "web-01"', "[1]", '"text"', "{}{}"])
async def test_arguments_that_are_no_object_are_never_kept(server: ModelServer, arguments: str) -> None:
    """M05."""
    server.then(call("look", arguments))
    with pytest.raises(ModelError) as caught:
        await ask(server)
    assert caught.value.kind == "bad_tool_json"


async def test_the_key_travels_in_the_header(server: ModelServer) -> None:
    await ask(server, api_key="sk-canary-123", timeout_s=30)
    assert server.keys == ["Bearer sk-canary-123"]


async def test_no_secret_or_body_in_errors(server: ModelServer) -> None:
    """N-22: a failing call names neither key nor URL nor body."""
    server.then(broken("error_500_html"))
    with pytest.raises(ModelError) as caught:
        await ask(server, api_key="sk-canary-123")
    assert "canary" not in repr(caught.value) + str(caught.value.__cause__)
    assert "html" not in str(caught.value)


async def test_gone_conversation_is_forgotten(server: ModelServer) -> None:
    """SES-22: the ids that name a conversation are dropped for the next call."""
    server.then(broken("conversation_404"), say("新的对话"))
    model = OpenAICompatible(
        ModelRoute(name="r", base_url=server.url, model="fake", extra_body={"conversation_id": "c1", "top_k": 5}), CLOCK
    )
    with pytest.raises(ModelError, match="conversation not found"):
        await model.complete(ASK, (), Deadline(CLOCK.monotonic() + 5))
    reply = await model.complete(ASK, (), Deadline(CLOCK.monotonic() + 5))
    await model.close()
    assert reply.text == "新的对话"
    assert server.requests[0]["conversation_id"] == "c1"
    assert "conversation_id" not in server.requests[1]
    assert server.requests[1]["top_k"] == 5
