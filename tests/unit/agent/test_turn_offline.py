"""Turns without a model: honest sentences, commands, transcripts, epochs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent import texts
from agent.models import Turn
from agent.protocol import Capability, Deadline
from agent.turn import run_turn
from memory.models import Message, Session
from tests.fakes.assistant import PULL, PUSH, Assistant, FakeStop, make_assistant
from tools.assembly import builtin_tools
from tools.models import PendingAction, Todo


@pytest.fixture
async def assistant(tmp_path: Path) -> AsyncIterator[Assistant]:
    made = await make_assistant(tmp_path)
    yield made
    await made.close()


async def test_first_turn_is_honest_and_says_so_once(assistant: Assistant) -> None:
    first = await assistant.say("给我讲讲量子力学")
    second = await assistant.say("再讲讲相对论")
    assert first.text.startswith(texts.RULE_NOTICE_USER)
    assert texts.RULE_NOTICE_USER not in second.text
    assert "量子力学" not in first.text
    rows = await assistant.rows(Turn)
    assert [row.route for row in rows] == ["rule", "rule"]


async def test_transcript_and_session_rows_are_written_with_the_answer(assistant: Assistant) -> None:
    await assistant.say("给我讲讲量子力学")
    lines = await assistant.rows(Message)
    assert (lines[0].role, lines[0].text) == ("user", "给我讲讲量子力学")
    assert lines[1].role == "assistant"
    (session,) = await assistant.rows(Session)
    assert session.turns == 1


async def test_new_session_closes_the_old_one(assistant: Assistant) -> None:
    await assistant.say("给我讲讲量子力学")
    result = await assistant.say("新会话")
    assert result.text == texts.NEW_SESSION
    sessions = await assistant.rows(Session)
    assert [row.end_reason for row in sessions] == ["asked", None]
    assert (await assistant.where()).session_id == sessions[1].id


async def test_doctor_is_for_operators_and_promises_what_the_channel_can_do(assistant: Assistant) -> None:
    """N-26."""
    assert (await assistant.say("诊断")).text == texts.DOCTOR_DENIED
    assistant.user_id = "lisi"
    result = await assistant.say("/诊断")
    assert result.text == "好的，正在处理，完成后通知你。"
    assert result.job is not None
    assert result.job.name == "doctor"
    assistant.capability = PULL
    assert "继续" in (await assistant.say("诊断")).text


async def test_plain_mode_accounts_get_no_memory_and_no_tools(assistant: Assistant) -> None:
    """N-11: whoever can forge the query string could be anyone."""
    assistant.capability = Capability(can_push=False, can_card=False, can_menu=False, trusted=False)
    result = await assistant.say("把web-01的内存告警建一个待办")
    assert texts.RULE_CAN_NOTHING in result.text
    assert await assistant.rows(Message) == []


async def test_a_turn_writes_nothing_by_itself(assistant: Assistant) -> None:
    """Everything a turn stores is committed by its caller, under the fence (N-02)."""
    where = await assistant.where()
    deadline = Deadline(assistant.services.clock.monotonic() + 60)
    message = assistant.message("讲个笑话")
    result = await run_turn(assistant.services, message, where, deadline, PUSH, FakeStop())
    assert result.writes
    assert await assistant.rows(Turn) == []
    assert await assistant.rows(Message) == []
    await assistant.commit(result)
    assert len(await assistant.rows(Turn)) == 1


async def test_a_sentence_becomes_a_prompt_with_its_values(tmp_path: Path) -> None:
    """The front door of the product, with no model at all: a proposal with every value, and nothing done yet."""
    made = await make_assistant(tmp_path, tools=builtin_tools())
    result = await made.say("把web-01的内存告警建一个待办，明天上午提醒我")
    assert [reply.source for reply in result.replies] == ["confirm_prompt"]
    assert "即将执行以下操作，请确认" in result.text
    assert "web-01的内存告警" in result.text
    assert await made.rows(Todo) == []
    (action,) = await made.rows(PendingAction)
    assert (action.tool, action.status) == ("todo_create", "pending")
    other = await made.say("我的待办")
    assert "另有 1 项等你确认" in other.text
    await made.close()


async def test_slots_are_kept_between_turns_in_the_session(tmp_path: Path) -> None:
    made = await make_assistant(tmp_path, tools=builtin_tools())
    assert "什么时间" in (await made.say("提醒我给客户回电话")).text
    result = await made.say("后天下午三点")
    assert "给客户回电话" in result.text
    assert result.outcome == "asked"
    await made.close()


async def test_a_follower_is_offered_nothing(tmp_path: Path) -> None:
    """N-12."""
    person = {"account_id": "mp-main", "platform": "mp", "user_id": "oAbc", "id_type": "open_id"}
    made = await make_assistant(tmp_path, tools=builtin_tools(), **person)
    result = await made.say("把web-01的内存告警建一个待办")
    assert result.text.startswith(texts.RULE_NOTICE_CUSTOMER)
    assert await made.rows(PendingAction) == []
    await made.close()


async def test_a_reminder_the_channel_cannot_deliver_is_refused_when_proposed(tmp_path: Path) -> None:
    """N-26."""
    made = await make_assistant(tmp_path, tools=builtin_tools(), capability=PULL)
    result = await made.say("明天上午九点提醒我开会")
    assert [reply.source for reply in result.replies] == ["rule"]
    assert await made.rows(PendingAction) == []
    await made.close()
