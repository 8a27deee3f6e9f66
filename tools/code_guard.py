"""Counts the wrong codes that were tried on a high-risk action, in the audit trail: each try is a row of its own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.dialects import postgresql, sqlite

from config.columns import table_of
from tools.decided import Actor
from tools.models import ToolAudit
from tools.proposals import ACTIONS

TRIES = 5
"""The last wrong code that is answered with anything but the end of the action."""

_AUDIT = table_of(ToolAudit)
_KEEP = {
    name: dialect.insert(_AUDIT).on_conflict_do_nothing(index_elements=["call_key"])
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}


def missed(connection: Connection, row: Row[Any], actor: Actor, now_ms: int) -> int:
    """Note one more wrong code and return how many there were for this action."""
    connection.execute(select(ACTIONS.c.id).where(ACTIONS.c.id == row.id).with_for_update())  # tries at once count one by one
    keys = [f"wrong_code:{row.id}:{number}" for number in range(1, TRIES + 1)]
    count = int(connection.execute(select(func.count()).select_from(_AUDIT).where(_AUDIT.c.call_key.in_(keys))).scalar_one())
    values = {
        "tenant_id": row.tenant_id,
        "conversation_id": row.conversation_id,
        "user_id": actor.user_id,
        "action_id": row.id,
        "call_key": keys[min(count, TRIES - 1)],
        "tool": row.tool,
        "tool_class": "operation",
        "decision": "wrong_code",
        "ok": False,
        "took_ms": 0,
        "created_at_ms": now_ms,
    }
    connection.execute(_KEEP[connection.dialect.name], values)
    return count + 1
