"""The transcript of a conversation: lines as they were said, and the window of recent rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, bindparam, insert, select

from config.columns import table_of
from memory.models import Message

WINDOW_ROUNDS = 6
_MESSAGE = table_of(Message)
_LINES_PER_ROUND = 4
_ADD = insert(_MESSAGE)
_NEWEST = (
    select(_MESSAGE.c.id, _MESSAGE.c.role, _MESSAGE.c.text, _MESSAGE.c.session_id)
    .where(_MESSAGE.c.conversation_id == bindparam("conversation"), _MESSAGE.c.tenant_id == bindparam("tenant"))
    .order_by(_MESSAGE.c.id.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: who said it (``note`` is an outcome told outside a turn) and the text."""

    role: Literal["user", "assistant", "note"]
    text: str
    id: int | None = None


def append(
    connection: Connection,
    *,
    tenant_id: str,
    conversation_id: str,
    session_id: str,
    user_id: str,
    lines: Sequence[Line],
    now_ms: int,
    turn_id: str | None = None,
    inbound_seq: int | None = None,
) -> None:
    """Add lines in order."""
    rows = [
        {
            "tenant_id": tenant_id,
            "conversation_id": conversation_id,
            "session_id": session_id,
            "user_id": user_id,
            "role": line.role,
            "text": line.text,
            "inbound_seq": inbound_seq,
            "turn_id": turn_id,
            "created_at_ms": now_ms,
        }
        for line in lines
        if line.text
    ]
    if rows:
        connection.execute(_ADD, rows)


def recent(
    connection: Connection, tenant_id: str, conversation_id: str, session_id: str, rounds: int = WINDOW_ROUNDS
) -> list[Line]:
    """The last complete rounds of a session, oldest first. A round begins with what the person said.

    Reads a bounded number of rows whatever the conversation's length: the newest lines are those of the newest session.
    """
    limit = rounds * _LINES_PER_ROUND
    rows = connection.execute(_NEWEST, {"conversation": conversation_id, "tenant": tenant_id, "most": limit}).all()
    lines = [Line(row.role, row.text, row.id) for row in reversed(rows) if row.session_id == session_id]
    starts = [index for index, line in enumerate(lines) if line.role == "user"]
    if len(starts) > rounds:
        return lines[starts[-rounds] :]
    cut = len(rows) == limit and bool(starts)
    return lines[starts[0] :] if cut else lines
