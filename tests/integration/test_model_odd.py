"""What servers that call themselves OpenAI-compatible really send, one row each, over real HTTP through the real SDK.

A row says what came and what a turn makes of it: text a person may see, calls, or a failure of a kind (and so whether the
next route is asked). Seen at vLLM, SGLang, Ollama, llama.cpp, LM Studio, TGI, DashScope, DeepSeek, GLM, Kimi, MiniMax,
Hunyuan, Baichuan, Mistral, Azure, one-api and LiteLLM.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from agent.llm.base import ChatMessage, ModelError, ModelReply, ToolOffer
from agent.llm.openai_compat import OpenAICompatible
from agent.protocol import Deadline
from config.clock import Clock
from config.schema import ModelRoute
from tests.fakes.model_server import ModelServer, events, model_server, piece, say
from tests.fakes.odd_calls import CALLS
from tests.fakes.odd_failures import FAILURES
from tests.fakes.odd_shapes import STOP, TOOLS, part, text
from tests.fakes.odd_texts import TEXTS

CLOCK = Clock()
OFFERS = (
    ToolOffer("look", "查看服务器", {"type": "object", "properties": {"host": {"type": "string"}, "count": {"type": "integer"}}}),
    ToolOffer("list_todos", "列出待办", {"type": "object", "properties": {}}),
)
ASK = (ChatMessage("system", "规则"), ChatMessage("user", "你好"))


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as running:
        yield running


async def ask(server: ModelServer, *, timeout_s: float = 20.0, offers: tuple[ToolOffer, ...] = OFFERS) -> ModelReply:
    model = OpenAICompatible(ModelRoute(name="r", base_url=server.url, model="fake", local=True), CLOCK)
    try:
        return await model.complete(ASK, offers, Deadline(CLOCK.monotonic() + timeout_s))
    finally:
        await model.close()


@pytest.mark.parametrize("name", TEXTS)
async def test_what_a_person_may_see(server: ModelServer, name: str) -> None:
    answer, expected = TEXTS[name]
    server.then(answer)
    reply = await ask(server)
    assert (reply.text.strip(), reply.tool_calls) == (expected, ())


@pytest.mark.parametrize("name", CALLS)
async def test_calls_however_they_are_spelled(server: ModelServer, name: str) -> None:
    """M03, M04, M05, M10 and their kin: the right calls, whole, each with an id of its own, and no markup beside them."""
    answer, expected = CALLS[name]
    server.then(answer)
    reply = await ask(server)
    assert [(one.name, json.loads(one.arguments)) for one in reply.tool_calls] == expected
    assert len({one.id for one in reply.tool_calls if one.id}) == len(expected)
    assert reply.text in ("", "我看一下：")


@pytest.mark.parametrize("name", FAILURES)
async def test_what_is_no_answer_is_a_failure_of_its_kind(server: ModelServer, name: str) -> None:
    answer, kind, reason = FAILURES[name]
    server.then(answer)
    with pytest.raises(ModelError) as caught:
        await ask(server)
    assert (caught.value.kind, caught.value.reason) == (kind, reason)
    assert len(server.requests) == 1
    assert not caught.value.again


async def test_a_cut_answer_says_it_was_cut(server: ModelServer) -> None:
    server.then(events(piece(content="首先，"), piece("max_tokens")))
    assert (await ask(server)).finish_reason == "length"


async def test_without_offers_a_written_call_is_broken_too(server: ModelServer) -> None:
    """Nothing that looks like a call reaches a person who may use no tools."""
    server.then(text('<tool_call>{"name": "look", "arguments": {}}'), text('{"name": "look", "arguments": {}}'))
    reply = None
    with pytest.raises(ModelError, match="bad_tool_json"):
        reply = await ask(server, offers=())
    assert reply is None
    assert (await ask(server, offers=())).text == '{"name": "look", "arguments": {}}'


async def test_tokens_of_a_last_chunk_without_choices_count(server: ModelServer) -> None:
    server.then(events(piece(content="你好"), STOP, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}))
    usage = (await ask(server)).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (7, 2, False)


async def test_a_thought_goes_back_to_its_own_route_only(server: ModelServer) -> None:
    """DeepSeek and Kimi refuse the second call of a turn without the first one's reasoning_content; others refuse it with."""
    server.then(events(piece(reasoning_content="查一下"), piece(tool_calls=[part('{"host": "web-01"}', "look", id="a")]), TOOLS))
    asked = await ask(server)
    said = (
        *ASK,
        ChatMessage("assistant", asked.text, asked.tool_calls, thought=asked.thought),
        ChatMessage("tool", "92%", tool_call_id="a"),
    )
    server.then(say("好"), say("好"))
    for name in ("r", "other"):
        model = OpenAICompatible(ModelRoute(name=name, base_url=server.url, model="fake", local=True), CLOCK)
        await model.complete(said, OFFERS, Deadline(CLOCK.monotonic() + 20))
        await model.close()
    assert server.requests[1]["messages"][2]["reasoning_content"] == "查一下"
    assert "reasoning_content" not in server.requests[2]["messages"][2]


async def test_a_signature_goes_back_with_its_call(server: ModelServer) -> None:
    """Gemini 3 refuses a second call of a turn without the first one's ``extra_content``; no index, finish ``stop``."""
    signed = {"google": {"thought_signature": "c2ln"}}
    calls = [
        {"id": "a", "function": {"name": "look", "arguments": '{"host": "a"}'}, "extra_content": signed},
        {"id": "b", "function": {"name": "look", "arguments": '{"host": "b"}'}},
    ]
    server.then(events(*(piece(tool_calls=[one]) for one in calls), STOP))
    asked = await ask(server)
    assert [one.id for one in asked.tool_calls] == ["a", "b"]
    results = tuple(ChatMessage("tool", "92%", tool_call_id=one) for one in "ab")
    said = (*ASK, ChatMessage("assistant", "", asked.tool_calls, thought=asked.thought), *results)
    server.then(say("好"))
    model = OpenAICompatible(ModelRoute(name="r", base_url=server.url, model="fake", local=True), CLOCK)
    await model.complete(said, OFFERS, Deadline(CLOCK.monotonic() + 20))
    await model.close()
    sent = server.requests[1]["messages"][2]
    assert [one.get("extra_content") for one in sent["tool_calls"]] == [signed, None]
    assert set(sent) == {"role", "content", "tool_calls"}
