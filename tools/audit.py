"""The audit trail of tool calls: raw results live only here; a finished call is found again by its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from config.columns import table_of
from tools.base import Tool, ToolContext, ToolResult
from tools.models import ToolAudit

_AUDIT = table_of(ToolAudit)
_RAW_CHARS = 20_000
_KEEP = {
    name: dialect.insert(_AUDIT).on_conflict_do_nothing(index_elements=["call_key"])
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}


def record(
    connection: Connection,
    context: ToolContext,
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    decision: str,
    result: ToolResult | None,
    ok: bool,
    took_ms: int,
    action_id: str | None = None,
    error_code: str | None = None,
    keyed: bool = False,
) -> None:
    """Write one row inside the caller's transaction. ``keyed``: the row replays this ``call_key`` later (first one wins)."""
    values = {
        "tenant_id": context.tenant_id,
        "conversation_id": context.conversation_id,
        "user_id": context.user_id,
        "turn_id": context.turn_id,
        "action_id": action_id,
        "call_key": context.call_key if keyed else None,
        "tool": tool.name,
        "tool_class": tool.tool_class,
        "decision": decision,
        "args_json": json.dumps(dict(arguments), ensure_ascii=False, default=str),
        "result_json": None if result is None else _raw(result),
        "summary": None if result is None else result.summary,
        "ok": ok,
        "error_code": error_code,
        "took_ms": took_ms,
        "created_at_ms": context.clock.now_ms(),
    }
    connection.execute(_KEEP[connection.dialect.name], values)


def replay(connection: Connection, tenant_id: str, call_key: str) -> ToolResult | None:
    """The result of a finished call with this key, or None: what ran once is not run again (overview §7.2)."""
    row = connection.execute(
        select(_AUDIT.c.summary, _AUDIT.c.result_json).where(
            _AUDIT.c.tenant_id == tenant_id, _AUDIT.c.call_key == call_key, _AUDIT.c.ok.is_(True)
        )
    ).first()
    if row is None:
        return None
    try:
        stored = json.loads(row.result_json or "{}")
    except ValueError:  # it was cut for its length
        stored = {}
    return ToolResult(summary=row.summary or "", raw=stored.get("raw"), values=stored.get("values") or {})


def _raw(result: ToolResult) -> str:
    text = json.dumps({"values": dict(result.values), "raw": result.raw}, ensure_ascii=False, default=str)
    return text if len(text) <= _RAW_CHARS else text[:_RAW_CHARS]
