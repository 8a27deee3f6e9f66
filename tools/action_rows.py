"""The rows of actions being run: leases, ends, and what was abandoned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, update

from config import lease
from tools import texts
from tools.base import Tool, ToolContext, ToolResult
from tools.prompt import quoted_lines
from tools.proposals import ACTIONS
from tools.registry import storable

Action = Row[Any]
_SPARE_MS = 15_000


@dataclass(frozen=True, slots=True)
class Claimed:
    """An action whose lease we hold, checked and ready to be called."""

    row: Action
    tool: Tool
    context: ToolContext
    arguments: dict[str, Any]
    fence: int


@dataclass(frozen=True, slots=True)
class End:
    """How an action ends: its status, what is told, and the audit of the call."""

    status: str
    text: str
    result: ToolResult | None = None
    error_code: str | None = None
    took_ms: int = 0


def ttl_of(tool: Tool | None) -> int:
    """The lease of one action: its tool's timeout (twice, where a second try is harmless) and some air."""
    if tool is None:
        return _SPARE_MS
    return round(tool.timeout_s * 1000) * (2 if tool.idempotent else 1) + _SPARE_MS


def withdrawn(row: Action, reason: str) -> End:
    """The end of an action that may not run after all."""
    text = texts.OUTCOME_WITHDRAWN.format(summary=row.summary, reason=quoted_lines(storable(reason)))
    return End("withdrawn", text, error_code="withdrawn")


def give_back(connection: Connection, action_id: str, fence: int) -> None:
    """executing → confirmed: nothing was called, somebody else may."""
    connection.execute(
        update(ACTIONS)
        .where(ACTIONS.c.id == action_id, ACTIONS.c.status == "executing", ACTIONS.c.fence == fence)
        .values(status="confirmed", lease_owner=None, lease_until_ms=None)
    )


def end_row(connection: Connection, action_id: str, before: str, after: str, code: str | None, now_ms: int) -> bool:
    """Move a row on, if it is still where it was; exactly one caller gets True."""
    statement = update(ACTIONS).where(ACTIONS.c.id == action_id, ACTIONS.c.status == before)
    return connection.execute(statement.values(status=after, error_code=code, finished_at_ms=now_ms)).rowcount == 1


def abandoned(connection: Connection, limit: int) -> list[Action]:
    """Actions whose lease ran out while executing, the least tried first."""
    now = lease.now_ms(connection)
    free = lease.is_free(ACTIONS, now)
    query = select(ACTIONS).where(ACTIONS.c.status == "executing", free).order_by(ACTIONS.c.fence, ACTIONS.c.created_at_ms)
    return list(connection.execute(query.limit(limit)))
