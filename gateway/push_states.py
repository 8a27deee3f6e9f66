"""What became of a push: one state and reason a target, read from its outbox rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from config.columns import table_of
from gateway import texts
from gateway.models import Push
from gateway.outbox_states import ROWS

_PUSH = table_of(Push)
_WORST_FIRST = ("dead", "unknown", "expired", "cancelled", "parked", "sending", "pending", "passive_reserved", "sent")


@dataclass(frozen=True, slots=True)
class TargetView:
    """One target of a push: who, the group's id, its state (N-03) and, unless it is sent, why."""

    id: str
    shown: Mapping[str, Any]
    state: str
    reason: str | None
    errcode: int | None
    attempts: int
    sent_at_ms: int | None


@dataclass(frozen=True, slots=True)
class PushView:
    """A push and its targets in the order they were asked for."""

    id: str
    account_id: str
    created_at_ms: int
    expected: int
    targets: tuple[TargetView, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many targets are in each state; those not stored yet count as pending."""
        counts = Counter(target.state for target in self.targets)
        counts["pending"] += max(0, self.expected - len(self.targets))
        return {state: count for state, count in counts.items() if count}


def find(connection: Connection, tenant_id: str, accounts: Sequence[str] | None, push_id: str) -> Mapping[str, Any] | None:
    """The push row, or None when it is not this tenant's or not of these accounts."""
    query = select(_PUSH).where(_PUSH.c.id == push_id, _PUSH.c.tenant_id == tenant_id)
    row = connection.execute(query).mappings().first()
    return None if row is None or (accounts is not None and row["account_id"] not in accounts) else dict(row)


def view(connection: Connection, tenant_id: str, accounts: Sequence[str] | None, push_id: str) -> PushView | None:
    """The push with its targets' states."""
    push = find(connection, tenant_id, accounts, push_id)
    if push is None:
        return None
    query = (
        select(
            *(ROWS.c.group_id, ROWS.c.idempotency_key, ROWS.c.conversation_id, ROWS.c.user_id, ROWS.c.target, ROWS.c.status),
            *(ROWS.c.park_reason, ROWS.c.errcode, ROWS.c.errmsg, ROWS.c.attempts, ROWS.c.sent_at_ms),
        )
        .where(ROWS.c.cause_id == push_id, ROWS.c.cause == "push", ROWS.c.tenant_id == tenant_id)
        .order_by(ROWS.c.seq)
    )
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in connection.execute(query).mappings():
        groups.setdefault(row["group_id"], []).append(dict(row))
    targets = tuple(_target(push_id, group, rows) for group, rows in groups.items())
    return PushView(push["id"], push["account_id"], push["created_at_ms"], push["targets"], targets)


def _target(push_id: str, group: str, rows: Sequence[Mapping[str, Any]]) -> TargetView:
    worst = min(rows, key=lambda row: _WORST_FIRST.index(row["status"]))
    sent = [row["sent_at_ms"] for row in rows if row["sent_at_ms"] is not None]
    return TargetView(
        id=group,
        shown=_shown(push_id, rows[0]),
        state=worst["status"],
        reason=reason_of(worst),
        errcode=worst["errcode"],
        attempts=max(row["attempts"] for row in rows),
        sent_at_ms=max(sent) if worst["status"] == "sent" and sent else None,
    )


def _shown(push_id: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    target = row["target"]
    if target is not None:
        return {"all": True} if target.get("users") == ["@all"] else target
    by_conversation = str(row["idempotency_key"]).startswith(f"push:{push_id}:c:")
    return {"conversation": row["conversation_id"]} if by_conversation else {"user": row["user_id"]}


def reason_of(row: Mapping[str, Any]) -> str | None:
    """Why a row is not sent (yet), in the reader's words; None for a row that is, or is simply on its way."""
    status, errcode = row["status"], row["errcode"]
    if status == "sent":
        return row["errmsg"] or None
    told = None
    if errcode:
        told = texts.ERRCODES.get(errcode) or row["errmsg"] or None
        told = f"{errcode} {told}" if told else str(errcode)
    elif row["errmsg"]:
        told = row["errmsg"]
    if status == "parked":
        parked = texts.PARK_REASONS.get(row["park_reason"] or "", row["park_reason"])
        return f"{parked}（{told}）" if told else parked
    return told
