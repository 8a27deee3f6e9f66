"""What waits until the person writes again: pulling parked pages with 继续, and letting parked answers go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select, update

from gateway import texts
from gateway.account_state import clear_trouble, read_account
from gateway.channel import Channel, Part
from gateway.outbox_rows import unpack
from gateway.outbox_states import ROWS, move

FLUSH_LIMIT = 3
_NOW_MS = 3_000
CanPush = Callable[[Connection, str, str], bool]

FLUSHED_REASONS = ("window", "quota", "operator", "blocked")
"""Park reasons that the person's next message lifts. ``pull`` and ``more`` wait for 继续."""


@dataclass(frozen=True, slots=True)
class PulledPart(Part):
    """A part handed over on 继续. ``remaining`` more wait; ``key`` names it for a redelivery (SqlOutbox.pulled_again)."""

    group_id: str = ""
    key: str = ""
    remaining: int = 0


def _parked(conversation_id: str) -> ColumnElement[bool]:
    return and_(ROWS.c.conversation_id == conversation_id, ROWS.c.status == "parked")


_FLUSHABLE = (
    select(ROWS.c.group_id, ROWS.c.account_id, ROWS.c.kind, ROWS.c.park_reason)
    .where(ROWS.c.conversation_id == bindparam("conversation"), ROWS.c.status == "parked")
    .where(ROWS.c.park_reason.in_(FLUSHED_REASONS))
    .order_by(ROWS.c.seq)
    .limit(200)
)


def pull(
    connection: Connection, channels: Mapping[str, Channel], conversation_id: str, now_ms: int, can_push: CanPush
) -> PulledPart | None:
    """Hand over the oldest parked part that may travel passively; the rest of its page follows by push where there is push."""
    columns = (ROWS.c.seq, ROWS.c.group_id, ROWS.c.part, ROWS.c.account_id, ROWS.c.kind, ROWS.c.payload, ROWS.c.idempotency_key)
    fresh = or_(ROWS.c.next_attempt_at_ms.is_(None), ROWS.c.next_attempt_at_ms > now_ms)
    query = select(*columns).where(_parked(conversation_id), fresh).order_by(ROWS.c.seq).limit(20)
    for row in connection.execute(query).mappings().all():
        part = unpack(row["payload"], late=True)
        channel = channels.get(row["account_id"])
        if part is None or channel is None or not channel.can_passive(part):
            continue
        values = {"via": "pull", "sent_at_ms": now_ms, "next_attempt_at_ms": None, "park_reason": None}
        if not move(connection, ROWS.c.seq == row["seq"], "parked", "sent", values):
            continue
        if can_push(connection, row["account_id"], row["kind"]):
            _release_page(connection, row["group_id"], part.page, now_ms)
        return PulledPart(
            part.kind,
            part.payload,
            part.text,
            part.page,
            group_id=row["group_id"],
            key=row["idempotency_key"],
            remaining=parked_count(connection, conversation_id),
        )
    return None


def _release_page(connection: Connection, group_id: str, page: int, now_ms: int) -> None:
    """The other parts of a pulled page go out by push, a moment after the response that carries the first."""
    query = select(ROWS.c.seq, ROWS.c.payload).where(ROWS.c.group_id == group_id, ROWS.c.status == "parked")
    for seq, payload in connection.execute(query).all():
        part = unpack(payload)
        if part is not None and part.page == page:
            move(connection, ROWS.c.seq == seq, "parked", "pending", {"park_reason": None, "next_attempt_at_ms": now_ms + 1_000})


def pulled_again(connection: Connection, key: str) -> Part | None:
    """The pulled part with this row key, or None when it did not go by pull."""
    query = select(ROWS.c.payload).where(ROWS.c.idempotency_key == key, ROWS.c.via == "pull")
    payload: dict[str, Any] | None = connection.execute(query).scalar()
    return unpack(payload, late=True)


def parked_count(connection: Connection, conversation_id: str) -> int:
    """How many parts are parked in the conversation."""
    return int(connection.execute(select(func.count()).select_from(ROWS).where(_parked(conversation_id))).scalar_one())


def on_its_way(connection: Connection, conversation_id: str, now_ms: int) -> bool:
    """Whether something is going out to the person right now: the message that asked for it let it go itself."""
    due = and_(ROWS.c.status.in_(("pending", "sending")), ROWS.c.next_attempt_at_ms <= now_ms + _NOW_MS)
    gone = and_(ROWS.c.status == "sent", ROWS.c.via == "push", ROWS.c.sent_at_ms > now_ms - _NOW_MS)
    query = select(ROWS.c.seq).where(ROWS.c.conversation_id == conversation_id, or_(due, gone)).limit(1)
    return connection.execute(query).first() is not None


def stuck_notice(connection: Connection, conversation_id: str, account_id: str) -> str | None:
    """What to tell a person who writes while answers to them are stuck on an operator; None when nothing is."""
    if read_account(connection, account_id).trouble is None:
        return None
    stuck = select(ROWS.c.seq).where(_parked(conversation_id), ROWS.c.park_reason == "operator").limit(1)
    return None if connection.execute(stuck).first() is None else texts.STUCK_ON_OPERATOR


def flush_parked(connection: Connection, conversation_id: str, limit: int, now_ms: int, can_push: CanPush) -> int:
    """Let at most ``limit`` parked answers (groups) go, oldest first; returns how many. The rest stays behind 继续.

    While the operator has to act on an account, what was parked for that stays parked: the call would fail again.
    """
    flushed: list[str] = []
    for group_id, account_id, kind, reason in connection.execute(_FLUSHABLE, {"conversation": conversation_id}).all():
        if group_id in flushed or not can_push(connection, account_id, kind):
            continue
        if reason == "operator" and read_account(connection, account_id).trouble is not None:
            continue
        where = and_(ROWS.c.group_id == group_id, ROWS.c.park_reason.in_(FLUSHED_REASONS))
        if move(connection, where, "parked", "pending", {"park_reason": None, "next_attempt_at_ms": now_ms}):
            flushed.append(group_id)
        if len(flushed) >= limit:
            break
    return len(flushed)


def resume_account(connection: Connection, account_id: str, now_ms: int) -> int:
    """The account works again: its trouble is forgotten and what was parked for it goes. Returns how many rows go."""
    clear_trouble(connection, account_id)
    return _release(connection, account_id, "operator", now_ms)


def begin_push(connection: Connection, account_id: str, now_ms: int) -> int:
    """The account was found able to push: what waited to be pulled only for want of that goes. Returns how many rows go."""
    return _release(connection, account_id, "pull", now_ms)


def _release(connection: Connection, account_id: str, reason: str, now_ms: int) -> int:
    """Let an account's rows that are parked for ``reason`` go, at most three answers a conversation; the rest of a
    conversation waits behind 继续 (N-06)."""
    query = (
        select(ROWS.c.conversation_id, ROWS.c.group_id)
        .where(ROWS.c.status == "parked", ROWS.c.account_id == account_id, ROWS.c.park_reason == reason)
        .order_by(ROWS.c.seq)
    )
    groups: dict[str, list[str]] = {}
    for conversation, group in connection.execute(query):
        waiting = groups.setdefault(conversation, [])
        if group not in waiting:
            waiting.append(group)
    gone = 0
    for waiting in groups.values():
        for index, group in enumerate(waiting):
            where = and_(ROWS.c.group_id == group, ROWS.c.park_reason == reason)
            if index < FLUSH_LIMIT:
                gone += move(connection, where, "parked", "pending", {"park_reason": None, "next_attempt_at_ms": now_ms})
            else:
                connection.execute(update(ROWS).where(where, ROWS.c.status == "parked").values(park_reason="more"))
    return gone
