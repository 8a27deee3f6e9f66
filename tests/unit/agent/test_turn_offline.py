"""Turns without a model: honest sentences, commands, transcripts, epochs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent import texts
from agent.models import Turn
from memory.models import Message, Session
from tests.fakes.assistant import PULL, Assistant, make_assistant


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
