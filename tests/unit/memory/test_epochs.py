"""Sessions: 12 generations, 24 hours, on request; the summary carries over; the newest lines are the window."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from config.clock import FixedClock
from memory import epochs, transcripts
from memory.models import Message, Session
from memory.transcripts import Line
from tests.fakes.assistant import Assistant, make_assistant


@pytest.fixture
async def assistant(tmp_path: Path) -> AsyncIterator[Assistant]:
    made = await make_assistant(tmp_path)
    yield made
    await made.close()


def clock_of(assistant: Assistant) -> FixedClock:
    return cast(FixedClock, assistant.services.clock)


async def test_twelve_generations_then_a_new_epoch(assistant: Assistant) -> None:
    for number in range(13):
        await assistant.say(f"第{number}句话")
    first, second = await assistant.rows(Session)
    assert (first.turns, first.end_reason) == (12, "turns")
    assert (second.turns, second.parent_session_id, second.end_reason) == (1, first.id, None)
    assert "第11句话" in second.state["summary"]
    assert (await assistant.where()).session_id == second.id


async def test_a_day_later_a_new_epoch(assistant: Assistant) -> None:
    await assistant.say("今天的话")
    clock_of(assistant).advance(24 * 3600)
    await assistant.say("明天的话")
    first, second = await assistant.rows(Session)
    assert (first.end_reason, second.turns) == ("age", 1)


async def test_a_question_being_asked_survives_the_rotation(assistant: Assistant) -> None:
    state = {"slots": {"tool": "x"}, "told_rule": True, "summary": "旧"}
    assert epochs._carried(state) == {"slots": {"tool": "x"}}


async def test_asked_for_epoch_starts_empty(assistant: Assistant) -> None:
    await assistant.say("秘密计划")
    await assistant.say("新会话")
    where = await assistant.where()
    epoch = await assistant.database.read(lambda c: epochs.load(c, "default", where.session_id, clock_of(assistant).now_ms()))
    assert epoch.state == {}
    window = await assistant.database.read(lambda c: transcripts.recent(c, "default", where.conversation_id, where.session_id))
    assert window == []


async def test_metadata_of_fifty_epochs_is_kept(assistant: Assistant) -> None:
    for _ in range(55):
        clock_of(assistant).advance(1)
        await assistant.say("新会话")
    rows = await assistant.rows(Session)
    assert len(rows) <= 51
    assert (await assistant.where()).session_id in {row.id for row in rows}


async def test_window_is_six_complete_rounds_of_this_session(assistant: Assistant) -> None:
    where = await assistant.where()

    async def add(session_id: str, lines: list[Line]) -> None:
        await assistant.database.write(
            lambda c: transcripts.append(
                c,
                tenant_id="default",
                conversation_id=where.conversation_id,
                session_id=session_id,
                user_id="zhangsan",
                lines=lines,
                now_ms=1,
            )
        )

    await add("old", [Line("user", "旧"), Line("assistant", "旧答")])
    for number in range(9):
        await add("new", [Line("user", f"问{number}"), Line("assistant", f"答{number}"), Line("note", f"注{number}")])
    window = await assistant.database.read(lambda c: transcripts.recent(c, "default", where.conversation_id, "new"))
    assert [line.text for line in window if line.role == "user"] == [f"问{number}" for number in range(3, 9)]
    assert window[0].role == "user"
    assert await assistant.database.read(lambda c: transcripts.recent(c, "other", where.conversation_id, "new")) == []


async def test_memory_off_stores_nothing(tmp_path: Path) -> None:
    """MEM-03."""
    from tests.fakes.assistant import WECOM, settings_for

    settings = settings_for(tmp_path, {"accounts": [{**WECOM, "memory": "off"}], "operators": []})
    made = await make_assistant(tmp_path, settings=settings)
    await made.say("我的工号是 E-1024")
    assert await made.rows(Message) == []
    assert "E-1024" not in str([row.state for row in await made.rows(Session)])
    await made.close()
