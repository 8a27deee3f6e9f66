"""Sessions: epochs of a conversation, closed after 12 generations, 24 hours or on request; nothing but the epoch ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from config.columns import table_of
from config.ids import new_id
from memory.models import Conversation, Session

MAX_TURNS = 12
MAX_AGE_MS = 24 * 3600 * 1000
KEPT = 50
EndReason = Literal["turns", "age", "invalid", "budget", "asked"]

_SESSION = table_of(Session)
_CONVERSATION = table_of(Conversation)
_LOAD = select(_SESSION).where(_SESSION.c.id == bindparam("session"), _SESSION.c.tenant_id == bindparam("tenant"))
_COUNT_TURN = (
    update(_SESSION)
    .where(_SESSION.c.id == bindparam("session"))
    .values(turns=bindparam("count"), last_turn_ms=bindparam("now"), state=bindparam("kept", type_=_SESSION.c.state.type))
)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The session a turn runs in. ``ends`` names why the previous one is closed by this turn; then ``id`` is a new one.

    ``stored`` is False while the row of ``id`` does not exist yet.
    """

    id: str
    turns: int
    started_at_ms: int
    stored: bool
    state: Mapping[str, Any] = field(default_factory=dict)
    previous_id: str | None = None
    ends: EndReason | None = None
    memory_version: int = 0


def load(connection: Connection, tenant_id: str, session_id: str, now_ms: int) -> Epoch:
    """The session's epoch, or a fresh one that follows it when it is over (memory §6). Reads only."""
    row = connection.execute(_LOAD, {"session": session_id, "tenant": tenant_id}).one_or_none()
    if row is None:
        return Epoch(session_id, 0, now_ms, stored=False)
    reason = due(row.turns, row.started_at_ms, row.ended_at_ms, row.state, now_ms)
    if reason is None:
        return Epoch(row.id, row.turns, row.started_at_ms, True, dict(row.state or {}), memory_version=row.memory_version)
    return Epoch(new_id("s"), 0, now_ms, False, _carried(row.state), row.id, reason, row.memory_version)


def due(turns: int, started_at_ms: int, ended_at_ms: int | None, state: object, now_ms: int) -> EndReason | None:
    """Why a session is over, or None while it goes on."""
    if ended_at_ms is not None or not (state is None or isinstance(state, dict)):
        return "invalid"
    if turns >= MAX_TURNS:
        return "turns"
    return "age" if now_ms - started_at_ms >= MAX_AGE_MS else None


def _carried(state: object) -> dict[str, Any]:
    """A question being asked survives an automatic rotation; everything else starts from the summary."""
    return {"slots": state["slots"]} if isinstance(state, dict) and state.get("slots") else {}


def save(
    connection: Connection, tenant_id: str, conversation_id: str, epoch: Epoch, state: Mapping[str, Any], now_ms: int
) -> None:
    """Count one turn in the epoch and keep its state; opens the row and closes the previous one where needed."""
    if epoch.ends is not None and epoch.previous_id is not None:
        close(connection, epoch.previous_id, epoch.ends, now_ms)
    turns, kept = epoch.turns + 1, dict(state)
    counted = connection.execute(_COUNT_TURN, {"session": epoch.id, "count": turns, "now": now_ms, "kept": kept}).rowcount
    if epoch.stored:
        return
    if counted == 0:
        _insert(connection, tenant_id, conversation_id, epoch, {"turns": turns, "last_turn_ms": now_ms, "state": kept})
    _point(connection, conversation_id, epoch.id)
    _forget_old(connection, conversation_id)


def start_new(connection: Connection, tenant_id: str, conversation_id: str, previous: Epoch, now_ms: int) -> str:
    """Close the running epoch because the person asked, and open an empty one; returns its id."""
    for session_id in {previous.id, previous.previous_id} - {None}:
        close(connection, str(session_id), "asked", now_ms)
    fresh = Epoch(new_id("s"), 0, now_ms, False, previous_id=previous.id, memory_version=previous.memory_version)
    _insert(connection, tenant_id, conversation_id, fresh, {})
    _point(connection, conversation_id, fresh.id)
    _forget_old(connection, conversation_id)
    return fresh.id


def close(connection: Connection, session_id: str, reason: EndReason, now_ms: int) -> None:
    """End a session; one that has ended keeps its first reason. Its working state is dropped."""
    connection.execute(
        update(_SESSION)
        .where(_SESSION.c.id == session_id, _SESSION.c.ended_at_ms.is_(None))
        .values(ended_at_ms=now_ms, end_reason=reason, state=None)
    )


def _insert(connection: Connection, tenant_id: str, conversation_id: str, epoch: Epoch, values: Mapping[str, Any]) -> None:
    connection.execute(
        insert(_SESSION).values(
            id=epoch.id,
            tenant_id=tenant_id,
            conversation_id=conversation_id,
            parent_session_id=epoch.previous_id,
            memory_version=epoch.memory_version,
            started_at_ms=epoch.started_at_ms,
            **{"turns": 0, **values},
        )
    )


def _point(connection: Connection, conversation_id: str, session_id: str) -> None:
    connection.execute(update(_CONVERSATION).where(_CONVERSATION.c.id == conversation_id).values(session_id=session_id))


def _forget_old(connection: Connection, conversation_id: str) -> None:
    kept = (
        select(_SESSION.c.id)
        .where(_SESSION.c.conversation_id == conversation_id)
        .order_by(_SESSION.c.started_at_ms.desc(), _SESSION.c.id.desc())
        .limit(KEPT)
    )
    ids = [row.id for row in connection.execute(kept)]
    if len(ids) == KEPT:
        connection.execute(delete(_SESSION).where(_SESSION.c.conversation_id == conversation_id, _SESSION.c.id.not_in(ids)))
