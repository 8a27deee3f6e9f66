"""Whether an answer comes so late that it must say which question it answers (OA5-16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, or_, select

from agent.protocol import Platform
from config.columns import table_of
from gateway.models import Inbound, Job

_INBOUND = table_of(Inbound)
_JOB = table_of(Job)
_LATE_MS = 6_000


def needs_label(connection: Connection, row: Mapping[str, Any], platform: Platform, now_ms: int) -> bool:
    """True for an Official Account when the platform's five seconds are over; on WeCom, where people see the order, only
    when the person has asked something else since."""
    payload = row["payload"] or {}
    if "late" not in payload:
        return False
    question = _question(connection, row)
    if question is None:
        return platform == "mp"
    seq, received_at_ms = question
    if now_ms - received_at_ms < _LATE_MS:
        return False
    return platform == "mp" or _asked_since(connection, row["conversation_id"], seq, received_at_ms)


def _question(connection: Connection, row: Mapping[str, Any]) -> tuple[int, int] | None:
    """The inbound row an answer belongs to: (seq, received_at_ms)."""
    seq: int | None = None
    if row["cause"] == "inbound" and str(row["cause_id"]).isdigit():
        seq = int(row["cause_id"])
    elif row["cause"] == "job":
        seq = connection.execute(select(_JOB.c.inbound_seq).where(_JOB.c.id == row["cause_id"])).scalar()
    if seq is None:
        return None
    received = connection.execute(select(_INBOUND.c.received_at_ms).where(_INBOUND.c.seq == seq)).scalar()
    return None if received is None else (seq, int(received))


def _asked_since(connection: Connection, conversation_id: str, seq: int, received_at_ms: int) -> bool:
    query = (
        select(_INBOUND.c.seq)
        .where(_INBOUND.c.conversation_id == conversation_id, _INBOUND.c.received_at_ms >= received_at_ms)
        .where(_INBOUND.c.seq > seq, _INBOUND.c.lane.in_(("turn", "single")))
        .where(or_(_INBOUND.c.joined_seq.is_(None), _INBOUND.c.joined_seq != seq))
        .limit(1)
    )
    return connection.execute(query).first() is not None
