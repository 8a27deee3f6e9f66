"""The audit trail of tool calls: raw results live only here; a finished call is found again by its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from config.columns import table_of
from config.logging import get_logger, log
from tools.base import ToolContext, ToolResult
from tools.models import ToolAudit

_logger = get_logger(__name__)
_AUDIT = table_of(ToolAudit)
_RAW_CHARS = 20_000
_KEEP = {
    name: dialect.insert(_AUDIT).on_conflict_do_nothing(index_elements=["call_key"])
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}


@dataclass(frozen=True, slots=True)
class Call:
    """Whose call of which tool is recorded."""

    tenant_id: str
    conversation_id: str
    user_id: str
    tool: str
    tool_class: str
    at_ms: int
    call_key: str = ""
    turn_id: str | None = None
    action_id: str | None = None


def call_of(context: ToolContext, tool: str, tool_class: str) -> Call:
    """A call inside a turn."""
    return Call(
        context.tenant_id,
        context.conversation_id,
        context.user_id,
        tool,
        tool_class,
        context.clock.now_ms(),
        context.call_key,
        context.turn_id,
    )


def record(
    connection: Connection,
    call: Call,
    arguments: Mapping[str, Any],
    *,
    decision: str,
    result: ToolResult | None,
    ok: bool,
    took_ms: int,
    error_code: str | None = None,
    keyed: bool = False,
) -> None:
    """Write one row inside the caller's transaction. ``keyed``: the row replays this ``call_key`` later (first one wins)."""
    values = {
        "tenant_id": call.tenant_id,
        "conversation_id": call.conversation_id,
        "user_id": call.user_id,
        "turn_id": call.turn_id,
        "action_id": call.action_id,
        "call_key": call.call_key if keyed else None,
        "tool": call.tool,
        "tool_class": call.tool_class,
        "decision": decision,
        "args_json": json.dumps(dict(arguments), ensure_ascii=False, default=str),
        "result_json": None if result is None else _raw(result),
        "summary": None if result is None else result.summary,
        "ok": ok,
        "error_code": error_code,
        "took_ms": took_ms,
        "created_at_ms": call.at_ms,
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
    try:
        text = json.dumps({"values": dict(result.values), "raw": result.raw}, ensure_ascii=False, default=str)
    except Exception as error:  # noqa: BLE001 -- a foreign value: whatever it is, what it came from has happened and is told
        log(_logger, "audit.unreadable", code=type(error).__name__)
        text = "{}"
    text = text.encode("utf-8", "replace").decode()  # half a character can be neither stored nor sent
    return text if len(text) <= _RAW_CHARS else text[:_RAW_CHARS]
