"""Turns with a scripted model over real HTTP: tools, parked writes, budgets, fallback, stop, and models that lie."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent import texts
from agent.models import Turn
from config.clock import Clock
from memory.models import Message, Session
from tests.fakes.assistant import PULL, Assistant, FakeStop, make_assistant, settings_for
from tests.fakes.model_server import Answer, ModelServer, broken, call, model_server, say
from tools.base import Tool, ToolContext, ToolResult
from tools.models import PendingAction
from tools.texts import QUOTED_LINE

RAN: list[str] = []
HOST = {
    "type": "object",
    "properties": {"host": {"type": "string"}, "level": {"type": "string", "enum": ["low", "high"]}},
    "required": ["host"],
    "additionalProperties": False,
}


async def look(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    RAN.append(f"look {arguments['host']}")
    return ToolResult(f"服务器{arguments['host']}的CPU使用率为92%")


async def restart(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    RAN.append("restart")
    return ToolResult("已重启")


LOOK = Tool("look", "查看服务器状态", HOST, look, title="查看服务器")
RESTART = Tool("restart", "重启服务器", HOST, restart, title="重启服务器", tool_class="operation")


def route(server: ModelServer, name: str = "local", **extra: Any) -> dict[str, Any]:
    return {"name": name, "base_url": server.url, "model": "fake", "local": True, "timeout_s": 30, **extra}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    RAN.clear()
    async with model_server() as running:
        yield running


async def with_models(folder: Path, *routes: dict[str, Any], tenant: Any = None, **limits: Any) -> Assistant:
    settings = settings_for(folder, tenant, models=list(routes), limits=limits)
    return await make_assistant(folder, settings=settings, clock=Clock(), tools=[LOOK, RESTART])


@pytest.fixture
async def assistant(tmp_path: Path, server: ModelServer) -> AsyncIterator[Assistant]:
    made = await with_models(tmp_path, route(server), model_calls=4, tool_calls=3)
    yield made
    await made.close()


async def test_a_read_runs_and_its_summary_alone_reaches_the_model(assistant: Assistant, server: ModelServer) -> None:
    """S001-08: one tool call, two model calls, nothing else."""
    server.then(call("look", {"host": "web-01"}), say("web-01 的 CPU 到了 92%。"))
    result = await assistant.say("web-01 怎么样")
    assert result.text == "web-01 的 CPU 到了 92%。"
    assert result.replies[0].source == "model"
    assert server.requests[1]["messages"][-1]["content"] == "服务器web-01的CPU使用率为92%"
    (row,) = await assistant.rows(Turn)
    assert (row.route, row.model_calls, row.tool_calls, row.tools) == ("local", 2, 1, ["look"])
    assert (row.prompt_tokens, row.completion_tokens) == (200, 40)


async def test_a_write_is_parked_and_asked_about(assistant: Assistant, server: ModelServer) -> None:
    server.then(call("restart", {"host": "web-01"}))
    result = await assistant.say("重启 web-01")
    assert RAN == []
    assert result.outcome == "asked"
    assert [reply.source for reply in result.replies] == ["confirm_prompt"]
    assert "即将执行以下操作，请确认" in result.replies[0].text
    assert "web-01" in result.replies[0].text
    assert len(server.requests) == 1, "no second model call only to say that we wait"
    (row,) = await assistant.rows(PendingAction)
    assert (row.status, result.replies[0].action_id) == ("pending", row.id)


async def test_mixed_batch_runs_the_read_and_parks_the_write(assistant: Assistant, server: ModelServer) -> None:
    """C28 and C29: every call of the batch has its result in the next request, the write's says it waits."""
    server.then(Answer("", (("look", {"host": "web-01"}), ("restart", {"host": "web-01"}))), say("CPU 92%，重启等你确认。"))
    result = await assistant.say("看看 web-01，不行就重启")
    assert RAN == ["look web-01"]
    tail = server.requests[1]["messages"][-2:]
    assert [message["role"] for message in tail] == ["tool", "tool"]
    waiting = json.loads(tail[1]["content"])
    assert waiting["status"] == "awaiting_confirmation"
    assert waiting["number"] == 1
    assert [reply.source for reply in result.replies] == ["model", "confirm_prompt"]


async def test_after_a_parked_write_the_next_turn_is_a_valid_request(assistant: Assistant, server: ModelServer) -> None:
    """C29: no tool call without its result in any later request; the open action is in the state block."""
    server.then(call("restart", {"host": "web-01"}), say("好的。"))
    await assistant.say("重启 web-01")
    result = await assistant.say("顺便问下，今天周几")
    messages = server.requests[1]["messages"]
    called = {one["id"] for message in messages for one in message.get("tool_calls", ())}
    answered = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    assert called == answered
    assert "#1" in messages[0]["content"]
    assert "即将执行" not in json.dumps(messages[1:], ensure_ascii=False), "a model must not learn to write prompts"
    assert result.text.startswith("好的。\n另有 1 项等你确认")
    assert "「确认 1」" in result.text


@pytest.mark.parametrize(
    ("calls", "prompts"),
    [
        pytest.param((("restart", {"host": "web-01"}), ("restart", {"host": "web-01"})), 1, id="same-write-twice"),
        pytest.param((("restart", {"host": "a-1"}), ("restart", {"host": "b-1"})), 2, id="two-writes"),
        pytest.param((("restart", {"host": "a-1", "force": True}),), 0, id="invented-field"),
        pytest.param((("restart", {"host": "a-1", "level": "extreme"}),), 0, id="invented-enum"),
        pytest.param((("restart_now", {"host": "a-1"}),), 0, id="invented-tool"),
    ],
)
async def test_what_a_model_invents_never_runs(assistant: Assistant, server: ModelServer, calls: Any, prompts: int) -> None:
    """S001-54: nothing invented is run, nothing unconfirmed is run."""
    server.then(Answer("", calls), say("需要你补充一下。"))
    result = await assistant.say("重启")
    assert RAN == []
    assert sum(reply.source == "confirm_prompt" for reply in result.replies) == prompts
    assert len(await assistant.rows(PendingAction)) == prompts


async def test_invalid_twice_asks_the_person(assistant: Assistant, server: ModelServer) -> None:
    """S001-54: a model that keeps getting it wrong does not loop; the person is asked what is missing."""
    server.then(call("restart", {}), call("restart", {}))
    result = await assistant.say("重启")
    assert result.outcome == "asked"
    assert "host" in result.text
    assert len(server.requests) == 2
    assert RAN == []


async def test_text_that_looks_like_a_prompt_is_marked_and_opens_nothing(assistant: Assistant, server: ModelServer) -> None:
    """N-17 and N-15: written words are no prompt; nothing waits afterwards."""
    server.then(say("重启 web-01\n回复「确认 27」执行\n另有 1 项等你确认：重启"))
    result = await assistant.say("重启 web-01")
    lines = result.text.splitlines()
    assert lines[0] == "重启 web-01"
    assert all(line.startswith(QUOTED_LINE) for line in lines[1:])
    assert result.replies[0].source == "model"
    assert result.replies[0].action_id is None
    assert await assistant.rows(PendingAction) == []


async def test_both_texts_arrive(assistant: Assistant, server: ModelServer) -> None:
    """DEL-31: text, tool call, text."""
    server.then(call("look", {"host": "web-01"}, text="我先看看。"), say("CPU 92%。"))
    assert (await assistant.say("web-01 怎么样")).text == "我先看看。\nCPU 92%。"


async def test_commentary_is_not_sent_twice(assistant: Assistant, server: ModelServer) -> None:
    """DEL-32: 好的, then 好的，结果…: once."""
    server.then(call("look", {"host": "web-01"}, text="好的"), say("好的，CPU 92%。"))
    assert (await assistant.say("web-01 怎么样")).text == "好的，CPU 92%。"


async def test_where_only_one_message_can_go_out_it_is_the_prompt(assistant: Assistant, server: ModelServer) -> None:
    assistant.capability = PULL
    server.then(call("restart", {"host": "web-01"}, text="马上为你准备。"))
    result = await assistant.say("重启 web-01")
    assert [reply.source for reply in result.replies] == ["confirm_prompt"]


async def test_budget_of_model_calls_ends_with_what_was_found(assistant: Assistant, server: ModelServer) -> None:
    server.rule = lambda request: call("look", {"host": f"web-{len(request['messages'])}"})
    result = await assistant.say("把所有服务器看一遍")
    assert result.outcome == "partial"
    assert result.text.startswith("这件事我没能全部做完（查询次数太多），到目前为止：")
    assert result.text.count("CPU使用率为92%") == 3
    assert len(RAN) == 3


async def test_budget_of_tokens(tmp_path: Path, server: ModelServer) -> None:
    made = await with_models(tmp_path, route(server), turn_tokens=1000)
    server.rule = lambda request: Answer("", (("look", {"host": "web-01"}),), usage=(600, 300))
    result = await made.say("看看")
    assert "内容太长" in result.text
    assert len(server.requests) == 1
    await made.close()


async def test_time_is_a_budget(assistant: Assistant, server: ModelServer) -> None:
    server.then(call("look", {"host": "web-01"}), broken("hang"))
    result = await assistant.say("看看", deadline_s=0.6)
    assert result.outcome == "partial"
    assert "时间到了" in result.text
    assert "92%" in result.text


async def test_a_timed_out_turn_says_so_and_how_to_go_on(assistant: Assistant, server: ModelServer) -> None:
    """OA5-06: the error with the retry hint, then the next question is normal."""
    server.then(broken("hang"), say("晴天。"))
    result = await assistant.say("明天天气", deadline_s=0.4)
    assert result.outcome == "failed"
    assert result.text == "刚才没能完成(超时)，回复 重试 再来一次"
    assert result.error_code == "model_timeout"
    assert (await assistant.say("明天天气")).text == "晴天。"
    assert [row.text for row in await assistant.rows(Message)] == ["明天天气", "晴天。"]


async def test_retry_runs_the_failed_message_again(assistant: Assistant, server: ModelServer) -> None:
    server.then(say("晴天。"))
    assistant.ops.source = assistant.message("明天天气")
    assert (await assistant.say("重试")).text == "晴天。"
    assert server.requests[0]["messages"][-1]["content"] == "明天天气"


async def test_retry_never_repeats_an_unknown_write(assistant: Assistant, server: ModelServer) -> None:
    """N-27."""
    server.then(call("restart", {"host": "web-01"}))
    assistant.ops.source = assistant.message("重启 web-01")
    await assistant.say("重启 web-01")
    table = PendingAction.__table__  # type: ignore[attr-defined]
    await assistant.database.write(lambda connection: connection.execute(table.update().values(status="unknown")))
    result = await assistant.say("重试")
    assert "结果还不清楚" in result.text
    assert len(server.requests) == 1


async def test_stop_ends_a_running_model_call(assistant: Assistant, server: ModelServer) -> None:
    server.then(broken("hang"))
    stop = FakeStop()
    turn = asyncio.create_task(assistant.say("写一份很长的报告", stop=stop))
    async with asyncio.timeout(5):
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # a condition with a deadline
    stop.set()
    result = await asyncio.wait_for(turn, 2)
    assert result.outcome == "stopped"
    assert result.text == "已停下，“写一份很长的报告”没有做完。"


async def test_stop_between_calls_parks_nothing(assistant: Assistant, server: ModelServer) -> None:
    stop = FakeStop()

    def rule(request: Mapping[str, Any]) -> Answer:
        stop.set()
        return call("restart", {"host": "web-01"})

    server.rule = rule
    result = await assistant.say("重启", stop=stop)
    assert result.outcome == "stopped"
    assert [row.status for row in await assistant.rows(PendingAction) if row.status == "pending"] == []


# routes ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrong", ["busy_429", "error_500_html", "bad_json", "empty_stream", "empty_answer", "cut_stream"])
async def test_next_route_takes_over(tmp_path: Path, server: ModelServer, wrong: Any) -> None:
    async with model_server(say("第二个")) as second:
        made = await with_models(tmp_path, route(server, "one"), route(second, "two"))
        server.then(broken(wrong))
        assert (await made.say("你好")).text == "第二个"
        (row,) = await made.rows(Turn)
        assert [entry["route"] for entry in row.routes_tried] == ["one", "two"]
        assert row.routes_tried[1]["reason"] == f"after_{row.routes_tried[0]['outcome']}"
        await made.close()


async def test_a_refusal_is_not_hidden_by_another_route(tmp_path: Path, server: ModelServer) -> None:
    async with model_server(say("不该问我")) as second:
        made = await with_models(tmp_path, route(server, "one"), route(second, "two"))
        server.then(broken("refused_400"))
        result = await made.say("你好")
        assert result.outcome == "failed"
        assert second.requests == []
        await made.close()


async def test_tool_json_is_repaired_once_then_the_next_route(tmp_path: Path, server: ModelServer) -> None:
    async with model_server(say("第二个")) as second:
        made = await with_models(tmp_path, route(server, "one"), route(second, "two"))
        bad = call("look", {"host": "web-01"}, wrong="bad_tool_json")
        server.then(bad, call("look", {"host": "web-01"}), say("好了"))
        assert (await made.say("看看")).text == "好了"
        assert RAN == ["look web-01"]
        server.then(bad, bad)
        assert (await made.say("再看看")).text == "第二个"
        await made.close()


async def test_external_needs_the_opt_in_and_is_visible(tmp_path: Path, server: ModelServer) -> None:
    """M09: no silent local → cloud fallback: without the opt-in nobody outside is asked; with it the reply and the row say so."""
    async with model_server(say("云上的回答")) as cloud:
        server.rule = lambda request: broken("error_500_html")
        routes = (route(server, "local"), route(cloud, "cloud", local=False))
        closed = await with_models(tmp_path / "a", *routes)
        assert (await closed.say("你好")).outcome == "failed"
        assert cloud.requests == []
        opened = await with_models(tmp_path / "b", *routes, tenant={"allow_external_models": True})
        assert (await opened.say("你好")).text == "云上的回答\n" + texts.EXTERNAL_NOTE.format(route="cloud")
        (row,) = await opened.rows(Turn)
        assert row.route == "cloud"
        opened.account_id, opened.platform, opened.user_id, opened.id_type = "mp-main", "mp", "oAbc", "open_id"
        assert (await opened.say("你好")).outcome == "failed", "customers' words need their own permission"
        assert len(cloud.requests) == 1
        for made in (closed, opened):
            await made.close()


async def test_without_an_allowed_route_the_rule_model_answers_and_says_so(tmp_path: Path, server: ModelServer) -> None:
    made = await with_models(tmp_path, route(server, "cloud", local=False))
    result = await made.say("讲个笑话")
    assert result.text.startswith(texts.RULE_NOTICE_USER)
    assert server.requests == []
    await made.close()


async def test_gone_conversation_is_answered_with_a_new_one(tmp_path: Path, server: ModelServer) -> None:
    """SES-22."""
    made = await with_models(tmp_path, route(server, extra_body={"conversation_id": "c1"}))
    server.then(broken("conversation_404"), say("新的对话"))
    assert (await made.say("你好")).text == "新的对话"
    await made.close()


async def test_usage_and_cost_are_on_the_turn_row(tmp_path: Path, server: ModelServer) -> None:
    made = await with_models(tmp_path, route(server, price_in=2.0, price_out=8.0))
    await made.say("你好")
    (row,) = await made.rows(Turn)
    assert row.cost_micro == 100 * 2 + 20 * 8
    await made.close()


async def test_the_newest_message_is_last_whole_and_verbatim(assistant: Assistant, server: ModelServer) -> None:
    text = "  第一行\n\n" + "长" * 2500 + " <b>尾</b> "
    await assistant.say(text)
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": text}


async def test_context_of_turn_30_is_no_larger_than_that_of_turn_20(assistant: Assistant, server: ModelServer) -> None:
    server.rule = lambda request: say("回答" * 50)
    for number in range(30):
        await assistant.say(f"第 {number:03} 个问题，说明一下" + "内容" * 40)
    sizes = [row.context_chars for row in await assistant.rows(Turn)]
    assert sizes[29] <= max(sizes[12:20])


async def test_what_a_model_thought_aloud_is_not_sent(assistant: Assistant, server: ModelServer) -> None:
    server.then(say("<think>用户在打招呼</think>\n\n你好。"))
    assert (await assistant.say("你好")).text == "你好。"


async def test_a_request_that_would_overrun_the_tokens_is_not_made(tmp_path: Path, server: ModelServer) -> None:
    """R-23: characters first, estimated tokens as a second fence; the session ends with the overrun."""
    made = await with_models(tmp_path, route(server), turn_tokens=2000)
    result = await made.say("长" * 3000)
    assert result.outcome == "partial"
    assert "内容太长" in result.text
    assert server.requests == []
    (session,) = await made.rows(Session)
    assert session.end_reason == "budget"
    await made.say("短一点")
    assert len(await made.rows(Session)) == 2
    await made.close()


async def test_retry_of_a_retry_ends(assistant: Assistant, server: ModelServer) -> None:
    assistant.ops.source = assistant.message("重试")
    assert (await assistant.say("重试")).text == texts.RETRY_NOTHING


async def test_a_change_takes_the_place_of_the_open_action(assistant: Assistant, server: ModelServer) -> None:
    """A new call of the same tool after 改成… supersedes; it is proposed, not run."""
    server.then(call("restart", {"host": "web-01"}), call("restart", {"host": "web-02"}))
    await assistant.say("重启 web-01")
    await assistant.say("改成web-02")
    rows = await assistant.rows(PendingAction)
    assert [(row.status, row.revision) for row in rows] == [("superseded", 1), ("pending", 2)]
    assert RAN == []
