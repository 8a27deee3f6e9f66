"""The states of an outbox row and the one function that moves rows between them (N-03): compare-and-set, nothing else."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Update, bindparam, update

from config.columns import table_of
from gateway.models import OutboxMessage

Status = Literal["passive_reserved", "pending", "sending", "sent", "parked", "unknown", "expired", "cancelled", "dead"]

ROWS = table_of(OutboxMessage)

MOVES: Mapping[Status, frozenset[Status]] = {
    "passive_reserved": frozenset({"sent", "pending", "parked", "expired", "cancelled"}),
    "pending": frozenset({"sending", "parked", "expired", "cancelled", "dead"}),
    "sending": frozenset({"sent", "pending", "parked", "unknown", "expired", "dead"}),
    "parked": frozenset({"sent", "pending", "expired", "cancelled"}),
    "unknown": frozenset({"pending", "cancelled"}),
    "dead": frozenset({"pending", "cancelled"}),
    "expired": frozenset({"pending"}),
    "sent": frozenset(),
    "cancelled": frozenset(),
}
"""What may follow what. ``sent`` and ``cancelled`` are for ever; dead and expired rows move only by an operator's hand."""

LIVE: tuple[Status, ...] = ("passive_reserved", "pending", "sending")
"""States that make later rows of the same conversation wait."""

FINISHED: tuple[Status, ...] = ("sent", "expired", "cancelled", "dead")


def move(
    connection: Connection, where: ColumnElement[bool], before: Status, after: Status, values: Mapping[str, Any] | None = None
) -> int:
    """Move the rows that ``where`` names from ``before`` to ``after``; returns how many were still there to move.

    A row that somebody else moved first is left as it is. Raises ValueError for a move N-03 does not know.
    """
    _check(before, after)
    changes: dict[str, Any] = {"status": after, **_side_effects(before), **(values or {})}
    statement = update(ROWS).where(ROWS.c.status == before, where).values(**changes)
    return connection.execute(statement).rowcount


def move_row(
    connection: Connection,
    seq: int,
    fence: int | None,
    before: Status,
    after: Status,
    values: Mapping[str, Any] | None = None,
) -> bool:
    """``move`` for the one row ``seq``, if it still carries ``fence`` where one is given (a row that nobody leases has none to
    keep); the statement is built once for each set of columns."""
    _check(before, after)
    changes: dict[str, Any] = {"status": after, **_side_effects(before), **(values or {})}
    statement = _one_row(tuple(sorted(changes)), fenced=fence is not None)
    given = {f"new_{name}": value for name, value in changes.items()}
    given |= {"at": seq, "before": before} if fence is None else {"at": seq, "before": before, "held": fence}
    return connection.execute(statement, given).rowcount == 1


@functools.lru_cache(maxsize=256)
def _one_row(columns: tuple[str, ...], *, fenced: bool) -> Update:
    changed = {name: bindparam(f"new_{name}", type_=ROWS.c[name].type) for name in columns}
    mine = [ROWS.c.seq == bindparam("at"), ROWS.c.status == bindparam("before")]
    if fenced:
        mine.append(ROWS.c.fence == bindparam("held"))
    return update(ROWS).where(*mine).values(**changed)


def _check(before: Status, after: Status) -> None:
    if after not in MOVES[before]:
        raise ValueError(f"an outbox row never goes from {before} to {after}")


def _side_effects(before: Status) -> dict[str, Any]:
    """What leaving a state always clears."""
    if before == "sending":
        return {"lease_owner": None, "lease_until_ms": None}
    return {"reserved_until_ms": None} if before == "passive_reserved" else {}
