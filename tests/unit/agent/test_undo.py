"""撤销 is a plain answer about the newest action; it never runs anything (N-27)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from agent import texts
from agent.commands import answer_fast, fast_command, help_text
from agent.protocol import Conversation
from config.columns import table_of
from tests.fakes.assistant import NOW_MS, PUSH, Assistant, make_assistant
from tools.models import PendingAction

_ACTION = table_of(PendingAction)


@pytest.fixture
async def assistant(tmp_path: Path) -> AsyncIterator[Assistant]:
    made = await make_assistant(tmp_path)
    yield made
    await made.close()


async def store(assistant: Assistant, where: Conversation, status: str, number: int = 1, **changes: Any) -> None:
    values: dict[str, Any] = {
        "id": f"pa{number}",
        "tenant_id": where.tenant_id,
        "account_id": where.account_id,
        "conversation_id": where.conversation_id,
        "session_id": where.session_id,
        "requester_id": where.user_id,
        "tool": "deploy",
        "tool_version": "1",
        "tool_call_id": "c",
        "args_json": "{}",
        "args_digest": "d",
        "prompt_text": "p",
        "summary": "部署：web-01",
        "number": number,
        "status": status,
        "idempotency_key": f"k{number}",
        "expires_at_ms": NOW_MS + 600_000,
        "created_at_ms": NOW_MS + number,
        "approver_policy": "requester",
        "risk": "normal",
        "revision": 1,
        "fence": 0,
        **changes,
    }
    await assistant.database.write(lambda c: c.execute(insert(_ACTION).values(**values)))


async def undo(assistant: Assistant, word: str = "撤销") -> str:
    message, where = assistant.message(word), await assistant.where()
    command = fast_command(message)
    assert command is not None
    return (await answer_fast(assistant.services, command, message, where, PUSH)).text


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("pending", "“部署：web-01”还没有执行。回复「取消 1」就不会执行。"),
        (
            "confirmed",
            "“部署：web-01”已经确认，马上执行。现在回复「取消 1」也许还来得及；来不及的话，执行完再说，我会先请你确认。",
        ),
        ("executing", "“部署：web-01”正在执行，拦不住了。要改回来，请等它执行完再说，我会先请你确认。"),
        (
            "succeeded",
            "“部署：web-01”已经执行，我不能自动撤销，已经发出的消息也收不回来。"
            "要改回来，请说清要做什么、是哪一项（带上编号），我会先请你确认再做。",
        ),
        ("unknown", "“部署：web-01”的结果还不清楚，我不会撤销也不会重做。请先核实它有没有生效。"),
        ("needs_human", "“部署：web-01”的结果还不清楚，我不会撤销也不会重做。请先核实它有没有生效。"),
        ("failed", "“部署：web-01”没有成功，没有要撤销的。"),
        ("rejected", "“部署：web-01”没有执行，不用撤销。"),
        ("expired", "“部署：web-01”没有执行，不用撤销。"),
        ("withdrawn", "“部署：web-01”没有执行，不用撤销。"),
    ],
)
async def test_n_27_undo_says_what_it_can_and_cannot_undo(assistant: Assistant, status: str, said: str) -> None:
    """N-27: 撤销 says what can be taken back and what cannot, and changes nothing."""
    await store(assistant, await assistant.where(), status)
    assert await undo(assistant) == said
    assert [row.status for row in await assistant.rows(PendingAction)] == [status]


async def test_n_27_it_speaks_of_the_newest_action_of_this_person_only(assistant: Assistant) -> None:
    """N-27: without one, or with only others' or old ones, there is nothing to undo; the newest counts."""
    assert await undo(assistant, "/撤销") == texts.UNDO_NOTHING
    where = await assistant.where()
    await store(assistant, where, "succeeded", 7, requester_id="lisi")
    await store(assistant, where, "succeeded", 8, created_at_ms=NOW_MS - 25 * 3600 * 1000)
    await store(assistant, where, "succeeded", 9, tenant_id="other")
    assert await undo(assistant) == texts.UNDO_NOTHING
    await store(assistant, where, "succeeded", 1)
    await store(assistant, where, "pending", 2)
    await store(assistant, where, "draft", 3)
    assert await undo(assistant) == "“部署：web-01”还没有执行。回复「取消 2」就不会执行。"


async def test_asking_is_not_undoing(assistant: Assistant) -> None:
    """撤销 is a word of its own, not a part of a sentence, and 帮助 names it where there are tools."""
    assert fast_command(assistant.message("撤销昨天的会议通知")) is None
    assert fast_command(assistant.message("能撤销吗")) is None
    message = assistant.message("帮助")
    assert "撤销" not in help_text(assistant.services, message, await assistant.where(), PUSH), "no tools, nothing to undo"
