"""What the models cost: sums of the turn table by day, route or person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, select

from agent.models import Turn
from config.clock import Clock
from config.columns import table_of

By = Literal["day", "route", "person"]
_TURN = table_of(Turn)
_BATCH = 5000


@dataclass(slots=True)
class UsageRow:
    """Sums of one group. ``cost`` is in the currency of the routes' prices."""

    key: tuple[str, ...]
    turns: int = 0
    failed: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    model_ms: int = 0


def usage(connection: Connection, clock: Clock, by: Iterable[By], since_ms: int, tenant_id: str | None = None) -> list[UsageRow]:
    """Usage since a moment, grouped by the given keys in order, sorted by them. Days are days in Asia/Shanghai."""
    keys = tuple(by)
    query = select(_TURN).where(_TURN.c.created_at_ms >= since_ms).order_by(_TURN.c.created_at_ms)
    if tenant_id is not None:
        query = query.where(_TURN.c.tenant_id == tenant_id)
    groups: dict[tuple[str, ...], UsageRow] = defaultdict(lambda: UsageRow(()))
    for row in connection.execute(query.execution_options(yield_per=_BATCH)):
        key = tuple(_key(row, name, clock) for name in keys)
        group = groups[key]
        group.key = key
        group.turns += 1
        group.failed += row.outcome == "failed"
        group.model_calls += row.model_calls
        group.tool_calls += row.tool_calls
        group.prompt_tokens += row.prompt_tokens
        group.completion_tokens += row.completion_tokens
        group.cost += row.cost_micro / 1_000_000
        group.model_ms += row.model_ms
    return [groups[key] for key in sorted(groups)]


def _key(row: Any, name: By, clock: Clock) -> str:
    if name == "day":
        return f"{clock.local(row.created_at_ms):%Y-%m-%d}"
    return str(row.route) if name == "route" else f"{row.account_id}/{row.user_id}"
