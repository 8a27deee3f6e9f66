"""What an operator may look at and do in the outbox: counts, rows with reasons, retry, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from gateway.outbox_states import ROWS, Status, move
from gateway.push_states import reason_of

RETRIED: tuple[Status, ...] = ("dead", "expired", "parked", "unknown")
DROPPED: tuple[Status, ...] = ("passive_reserved", "pending", "parked", "unknown", "dead")
OPEN: tuple[Status, ...] = ("passive_reserved", "pending", "sending", "parked", "unknown", "dead", "expired")


@dataclass(frozen=True, slots=True)
class Line:
    """One row as an operator sees it: no words of the message, who only masked unless asked."""

    seq: int
    status: str
    account_id: str
    who: str
    kind: str
    part: str
    cause: str
    attempts: int
    reason: str | None
    created_at_ms: int
    due_at_ms: int | None


def counts(connection: Connection, account_id: str | None = None) -> dict[str, int]:
    """How many rows are in each state."""
    query = select(ROWS.c.status, func.count()).group_by(ROWS.c.status)
    if account_id is not None:
        query = query.where(ROWS.c.account_id == account_id)
    return {str(status): int(count) for status, count in connection.execute(query)}


def listing(
    connection: Connection, states: Sequence[str], *, account_id: str | None = None, limit: int = 50, full_ids: bool = False
) -> list[Line]:
    """The newest rows in these states."""
    query = select(ROWS).where(ROWS.c.status.in_(states)).order_by(ROWS.c.seq.desc()).limit(limit)
    if account_id is not None:
        query = query.where(ROWS.c.account_id == account_id)
    return [_line(dict(row), full_ids) for row in connection.execute(query).mappings()]


def retry(connection: Connection, where: ColumnElement[bool], now_ms: int) -> int:
    """Send again, from the first attempt; returns how many rows. An unknown row repeats its very bytes, the others are
    frozen anew."""
    again: dict[str, Any] = {"attempts": 0, "next_attempt_at_ms": now_ms, "park_reason": None, "errcode": None, "errmsg": None}
    fresh = {**again, "request": None, "frozen_at_ms": None, "duplicate_check": False}
    done = sum(move(connection, where, state, "pending", fresh) for state in ("dead", "parked"))
    done += move(connection, where, "expired", "pending", {**fresh, "expires_at_ms": None})
    return done + move(connection, where, "unknown", "pending", {**again, "repeats": ROWS.c.repeats + 1})


def drop(connection: Connection, where: ColumnElement[bool]) -> int:
    """Cancel what has not been sent; returns how many rows."""
    return sum(move(connection, where, state, "cancelled", {"next_attempt_at_ms": None}) for state in DROPPED)


def mask(text: str) -> str:
    """An id with its middle hidden: enough to recognize, not to copy."""
    if len(text) <= 4:
        return text[:1] + "***"
    return f"{text[:3]}***{text[-2:]}" if len(text) > 6 else f"{text[:2]}***{text[-1]}"


def _line(row: Mapping[str, Any], full_ids: bool) -> Line:
    target = row["target"] or {}
    if target.get("webhook"):
        who = f"robot:{target['webhook']}"
    elif target.get("departments") or target.get("tags"):
        name = "departments" if target.get("departments") else "tags"
        who = f"{name}:{','.join(target[name])}"
    else:
        users = target.get("users") or [row["user_id"]]
        who = ",".join(user if full_ids or user == "@all" else mask(user) for user in users)
    return Line(
        seq=row["seq"],
        status=row["status"],
        account_id=row["account_id"],
        who=who,
        kind=row["kind"],
        part=f"{row['part'] + 1}/{row['parts']}",
        cause=row["cause"],
        attempts=row["attempts"],
        reason=reason_of(row),
        created_at_ms=row["created_at_ms"],
        due_at_ms=row["next_attempt_at_ms"] if row["status"] == "pending" else None,
    )
