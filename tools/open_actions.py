"""Looks up pending actions: the open ones of a conversation, one by its number, the newest of a person."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, not_, or_, select, update

from config.clock import Clock
from tools.decided import Actor, Decision, OpenAction
from tools.proposals import ACTIONS, AHEAD_MS, is_current

Action = Row[Any]
_WAITING = (
    select(ACTIONS)
    .where(ACTIONS.c.tenant_id == bindparam("tenant"), ACTIONS.c.conversation_id == bindparam("conversation"))
    .where(ACTIONS.c.status == "pending")
    .order_by(ACTIONS.c.created_at_ms, ACTIONS.c.id)
)
"""Built once: every turn asks."""


def is_over(now_ms: int) -> ColumnElement[bool]:
    """The SQL condition that an action still stands as pending though its time has run out."""
    return and_(ACTIONS.c.status == "pending", not_(is_current(now_ms)))


def settled_by_time(connection: Connection, row: Action, now_ms: int) -> Action:
    """The row as it stands now: one past its time ends here, because its person asks. The others are left to the reaper, who
    tells."""
    mine = and_(ACTIONS.c.id == row.id, is_over(now_ms))
    if connection.execute(update(ACTIONS).where(mine).values(status="expired", finished_at_ms=now_ms)).rowcount == 0:
        return row
    return connection.execute(select(ACTIONS).where(ACTIONS.c.id == row.id)).one()


def move_action(connection: Connection, action_id: str, states: tuple[str, ...], values: dict[str, Any]) -> bool:
    """Set values on an action that is in one of these states; False when it is not."""
    statement = update(ACTIONS).where(ACTIONS.c.id == action_id, ACTIONS.c.status.in_(states)).values(**values)
    return connection.execute(statement).rowcount == 1


def open_rows(connection: Connection, tenant_id: str, conversation_id: str, clock: Clock) -> list[Action]:
    """What waits for an answer in a conversation, oldest first."""
    rows = connection.execute(_WAITING, {"tenant": tenant_id, "conversation": conversation_id}).all()
    if not rows:
        return []
    now_ms = clock.shared_ms(connection)
    return [row for row in rows if row.expires_at_ms > now_ms and row.created_at_ms <= now_ms + AHEAD_MS]


def open_now(connection: Connection, tenant_id: str, conversation_id: str, clock: Clock) -> list[OpenAction]:
    """The same as others may know it."""
    rows = open_rows(connection, tenant_id, conversation_id, clock)
    now_ms = clock.shared_ms(connection) if rows else 0
    return [as_open(row, now_ms) for row in rows]


def _mine(actor: Actor) -> tuple[Any, ...]:
    return (
        ACTIONS.c.tenant_id == actor.tenant_id,
        ACTIONS.c.conversation_id == actor.conversation_id,
        ACTIONS.c.requester_id == actor.person,
        ACTIONS.c.status.not_in(("draft", "choice")),
        ACTIONS.c.number > 0,
    )


def numbered_row(connection: Connection, actor: Actor, decision: Decision, waiting: list[Action]) -> Action | None:
    """The action a number names: an open one first (by number, else by its code), else the newest that ever had it."""
    by_number = [row for row in waiting if row.number == decision.number]
    by_code = [row for row in waiting if row.code is not None and row.code == str(decision.number) and decision.code is None]
    if by_number or by_code:
        return (by_number or by_code)[0]
    here = (ACTIONS.c.tenant_id == actor.tenant_id, ACTIONS.c.conversation_id == actor.conversation_id)
    return connection.execute(
        select(ACTIONS)
        .where(*here, ACTIONS.c.number == decision.number, ACTIONS.c.status.not_in(("draft", "choice")), ACTIONS.c.number > 0)
        .order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc())
        .limit(1)
    ).first()


def latest_row(connection: Connection, actor: Actor, since_ms: int) -> Action | None:
    """The newest action of this person here since then."""
    query = select(ACTIONS).where(*_mine(actor), ACTIONS.c.created_at_ms >= since_ms)
    return connection.execute(query.order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc()).limit(1)).first()


def reissuable_row(connection: Connection, actor: Actor, since_ms: int, now_ms: int) -> Action | None:
    """The newest action of this person here that ended unanswered."""
    ended = or_(ACTIONS.c.status.in_(("expired", "withdrawn")), is_over(now_ms))
    query = select(ACTIONS).where(*_mine(actor), ended, ACTIONS.c.created_at_ms >= since_ms)
    return connection.execute(query.order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc()).limit(1)).first()


def made_since(connection: Connection, tenant_id: str, conversation_id: str, since_ms: int) -> bool:
    """Whether something was proposed in a conversation at that moment (UTC ms) or later."""
    here = (ACTIONS.c.tenant_id == tenant_id, ACTIONS.c.conversation_id == conversation_id)
    query = select(ACTIONS.c.id).where(*here, ACTIONS.c.created_at_ms >= since_ms, ACTIONS.c.status.not_in(("choice", "draft")))
    return connection.execute(query.limit(1)).first() is not None


def as_open(row: Action, now_ms: int) -> OpenAction:
    """A row as others may know it."""
    return OpenAction(
        id=row.id,
        number=row.number,
        tool=row.tool,
        arguments=json.loads(row.args_json),
        summary=row.summary,
        revision=row.revision,
        minutes_left=max(1, -(-(row.expires_at_ms - now_ms) // 60_000)),
    )
