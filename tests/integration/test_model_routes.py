"""What a person is told, and what an endpoint is asked anew, when it will not take a request: turns over real HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from agent import texts
from agent.llm.base import ChatMessage
from agent.llm.router import DataPermission, RouteLog
from agent.models import Turn
from agent.protocol import Deadline
from tests.fakes.assistant import Assistant
from tests.fakes.model_server import Answer, ModelServer, body, broken, call, events, model_server, piece, say
from tests.integration.test_model_turns import RAN, route, with_models


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    RAN.clear()
    async with model_server() as running:
        yield running


@pytest.fixture
async def assistant(tmp_path: Path, server: ModelServer) -> AsyncIterator[Assistant]:
    made = await with_models(tmp_path, route(server))
    yield made
    await made.close()


REFUSALS: dict[str, tuple[Answer, str]] = {
    "too-long": (
        body({"error": {"code": "context_length_exceeded"}}, 400),
        "刚才没能完成(内容超过了模型一次能读的长度)，请说短一点，或回复「新会话」从头开始",
    ),
    "filtered": (
        events(piece(content="首先"), piece("content_filter")),
        "刚才没能完成(模型服务的内容审核没有放行)，请换个说法再试",
    ),
    "key": (body({}, 401), "刚才没能完成(模型服务不接受我们的密钥)，请告诉管理员检查模型设置"),
    "model": (body({"error": "model not found"}, 404), "刚才没能完成(模型服务没有这个模型)，请告诉管理员检查模型设置"),
    "redirect": (
        body({}, 302, Location="https://elsewhere.example/"),
        "刚才没能完成(模型服务的地址不对)，请告诉管理员检查模型设置",
    ),
    "tools": (
        body({"error": {"message": "gemma3 does not support tools"}}, 400),
        "刚才没能完成(这个模型不会用工具)，请告诉管理员检查模型设置",
    ),
    "other": (body({"error": {"message": "bad"}}, 400), "刚才没能完成(模型服务拒绝了请求)，回复 重试 再来一次"),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_says_why_and_what_helps(tmp_path: Path, server: ModelServer, name: str) -> None:
    """A 4xx never falls back silently, and 重试 is offered only where it may help."""
    answer, told = REFUSALS[name]
    async with model_server() as second:
        made = await with_models(tmp_path, route(server, "one"), route(second, "two"))
        server.then(answer)
        result = await made.say("你好")
        await made.close()
    assert (result.outcome, result.text) == ("failed", told)
    assert second.requests == []


async def test_a_hang_of_the_first_route_costs_no_answer(tmp_path: Path, server: ModelServer) -> None:
    """The turn's time is shared out, whatever the first route is set to wait."""
    async with model_server(say("第二个")) as second:
        made = await with_models(tmp_path, route(server, "one", timeout_s=600), route(second, "two", timeout_s=600))
        await made.services.router.warm()
        server.then(broken("hang"))
        result = await made.say("你好", deadline_s=3.0)
        (row,) = await made.rows(Turn)
        await made.close()
    assert result.text == "第二个"
    assert [(one["route"], one["outcome"]) for one in row.routes_tried] == [("one", "timeout"), ("two", "ok")]


async def test_while_everything_rests_the_person_hears_at_once(tmp_path: Path, server: ModelServer) -> None:
    """And the first question after the endpoint is back is answered."""
    made = await with_models(tmp_path, route(server))
    server.rule = lambda request: broken("error_500_html")
    for _ in range(4):
        assert (await made.say("你好")).text == "刚才没能完成(模型服务出错)，回复 重试 再来一次"
    server.rule = lambda request: say("在的")
    assert (await made.say("你好")).text == "在的"
    await made.close()


@pytest.mark.parametrize(
    ("refusal", "changed"),
    [
        pytest.param({"detail": "Extra inputs are not permitted: stream_options"}, {"stream_options": None}, id="stream_options"),
        pytest.param(
            {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}},
            {"max_tokens": None, "max_completion_tokens": 1024},
            id="max_tokens",
        ),
        pytest.param(
            {"error": {"message": "Unsupported value: 'stream' does not support true with this model."}},
            {"stream": None, "stream_options": None},
            id="stream",
        ),
    ],
)
async def test_what_an_endpoint_will_not_take_is_left_out(
    assistant: Assistant, server: ModelServer, refusal: dict[str, Any], changed: dict[str, Any]
) -> None:
    """Once, on record, and remembered; the person gets the answer."""
    server.then(body(refusal, 422 if "detail" in refusal else 400), say("你好"), say("再见"))
    assert (await assistant.say("你好")).text == "你好"
    assert (await assistant.say("再见")).text == "再见"
    assert [{key: request.get(key) for key in changed} for request in server.requests[1:]] == [changed, changed]
    first, second = await assistant.rows(Turn)
    assert [(entry["reason"], entry["outcome"]) for entry in first.routes_tried] == [("first", "refused"), ("adapted", "ok")]
    assert len(second.routes_tried) == 1


async def test_callers_that_ask_at_once_are_all_answered(tmp_path: Path, server: ModelServer) -> None:
    """What one of them taught helps those that were under way, too."""

    def rule(request: Mapping[str, Any]) -> Answer:
        return body({"detail": "stream_options is not permitted"}, 422) if "stream_options" in request else say("好")

    server.rule = rule
    made = await with_models(tmp_path, route(server))
    deadline = Deadline(made.services.clock.monotonic() + 30)
    may = DataPermission(None, "user")
    asked = [
        made.services.router.complete(
            (ChatMessage("user", "你好"),), (), deadline, purpose="chat", permission=may, log=RouteLog(), rule=cast(Any, None)
        )
        for _ in range(6)
    ]
    assert [reply.text for reply in await asyncio.gather(*asked)] == ["好"] * 6
    await made.close()


@pytest.mark.parametrize("status", [400, 500])
async def test_a_template_without_a_system_role_gets_the_rules_as_a_round(
    assistant: Assistant, server: ModelServer, status: int
) -> None:
    """Gemma, Mistral: and what the person wrote stays the last message, word for word."""
    server.then(body({"message": "System role not supported"}, status), say("你好"))
    assert (await assistant.say(" 你好 ")).text == "你好"
    roles = [message["role"] for message in server.requests[1]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert server.requests[1]["messages"][-1]["content"] == " 你好 "


async def test_schema_words_an_endpoint_does_not_know_are_left_out(assistant: Assistant, server: ModelServer) -> None:
    """Gemini behind a proxy; the registry still checks every call against the whole schema."""
    unknown = (
        "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters'"
    )
    server.then(body({"error": {"message": unknown}}, 400), call("look", {"host": "a", "made_up": 1}), say("没看成"))
    assert (await assistant.say("看看 a")).text == "没看成"
    before, after = (request["tools"][0]["function"]["parameters"] for request in server.requests[:2])
    assert after == {key: value for key, value in before.items() if key != "additionalProperties"}
    assert RAN == []


async def test_messages_without_words_get_some_where_they_must(assistant: Assistant, server: ModelServer) -> None:
    refusal = body({"error": {"message": "messages 中 content 不能为空", "code": "1001"}}, 400)
    server.then(call("look", {"host": "web-01"}), refusal, say("好了"))
    assert (await assistant.say("看看")).text == "好了"
    assert [one["content"] for one in server.requests[2]["messages"] if one.get("tool_calls")] == ["（没有内容）"]


async def test_an_endpoint_that_refuses_everything_ends(assistant: Assistant, server: ModelServer) -> None:
    server.rule = lambda request: body({"message": "stream_options, system role not supported, stream is not supported"}, 400)
    assert (await assistant.say("你好")).outcome == "failed"
    assert len(server.requests) <= 5


async def test_a_cut_answer_says_so_and_a_loop_is_shortened(assistant: Assistant, server: ModelServer) -> None:
    server.then(
        events(piece(content="第一，检查内存。第二，"), piece("length")),
        events(piece(content="好的。" + "重启它吧，" * 200), piece("length")),
    )
    assert (await assistant.say("怎么办")).text == f"第一，检查内存。第二，\n{texts.CUT_OFF}"
    assert (await assistant.say("然后呢")).text == f"好的。重启它吧，重启它吧，……\n{texts.CUT_OFF}"


async def test_a_call_written_as_text_runs_and_is_never_shown(assistant: Assistant, server: ModelServer) -> None:
    server.then(say('我看看。\n<tool_call>\n{"name": "look", "arguments": {"host": "web-01"}}\n</tool_call>'), say("CPU 92%。"))
    assert (await assistant.say("web-01 怎么样")).text == "我看看。\nCPU 92%。"
    assert RAN == ["look web-01"]
    told = server.requests[1]["messages"]
    assert told[-2]["tool_calls"][0]["function"]["name"] == "look"
    assert "<tool_call>" not in str(told)


async def test_a_write_written_as_text_waits_like_any_other(assistant: Assistant, server: ModelServer) -> None:
    server.then(say('<tool_call>{"name": "restart", "arguments": {"host": "web-01"}}</tool_call>'))
    result = await assistant.say("重启 web-01")
    assert [reply.source for reply in result.replies] == ["confirm_prompt"]
    assert RAN == []


async def test_a_broken_written_call_is_repaired_once_then_an_honest_failure(assistant: Assistant, server: ModelServer) -> None:
    bad = say('<tool_call>{"name": "look", "arguments": {"host": </tool_call>')
    server.then(bad, say("没有查到。"), bad, bad)
    assert (await assistant.say("看看")).text == "没有查到。"
    result = await assistant.say("再看看")
    assert result.text == "刚才没能完成(模型的回答不完整)，回复 重试 再来一次"


async def test_a_redirect_is_not_followed_with_key_or_words(tmp_path: Path, server: ModelServer) -> None:
    """Neither to another host nor anywhere: where prompts go is what the settings say."""
    seen: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        seen.append(await request.text())
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", elsewhere)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.then(body({}, 307, Location=f"http://127.0.0.1:{runner.addresses[0][1]}/v1/chat/completions"))
    made = await with_models(tmp_path, route(server, api_key="sk-canary"))
    assert (await made.say("机密")).outcome == "failed"
    await made.close()
    await runner.cleanup()
    assert seen == []


async def test_a_local_model_is_not_asked_through_a_proxy(
    assistant: Assistant, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.then(say("你好"))
    assert (await assistant.say("你好")).text == "你好"


async def test_neither_key_nor_words_are_logged_whatever_goes_wrong(
    tmp_path: Path, server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    """N-22, with every logger at its most talkative; the SDK's own would print whole prompts."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "openai")
    made = await with_models(tmp_path, route(server, api_key="sk-canary-77"))
    for answer in (body({"error": {"message": "key sk-canary-77 is bad"}}, 401), events({"error": "sk-canary-77"}), say("好")):
        server.then(answer)
        result = await made.say("机密的话")
        assert "canary" not in result.text
    rows = await made.rows(Turn)
    await made.close()
    assert "canary" not in caplog.text + str(rows)
    assert "机密的话" not in caplog.text
