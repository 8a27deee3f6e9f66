"""Claim, renew, fence: the one lease mechanism for turns, jobs, outbox rows, actions and the reaper.

A leased table has ``lease_owner`` (text), ``lease_until_ms`` and ``fence`` (integers). Lease time is the database's own:
PostgreSQL's clock there, the machine's monotonic clock on SQLite (one machine, no jumps). Each boot of the machine has its
own stretch of numbers, so that a lease from before a reboot, or from another machine's copy of the file, is past or too far
ahead, and free either way. Lease time is never compared with wall time or across machines (N-08).
"""

from __future__ import annotations

import hashlib
import time
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, or_, select, text, update

from config.errors import FenceLost

TTL_MS = 15_000
RENEW_S = 5.0
_LONGEST_MS = 24 * 3600 * 1000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_BITS = 40
"""Milliseconds of one boot: 34 years."""


def now_ms(connection: Connection) -> int:
    """The lease clock of this database, milliseconds of an arbitrary epoch."""
    if connection.dialect.name == "postgresql":
        moment = connection.execute(text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")).scalar_one()
        return int(moment)
    return _boot_starts_ms() + time.monotonic_ns() // 1_000_000


@cache
def _boot_starts_ms() -> int:
    """Where the numbers of this boot of the machine begin; 0 where the system does not tell boots apart."""
    try:
        boot = _BOOT_ID.read_bytes().strip()
    except OSError:
        return 0
    return int.from_bytes(hashlib.sha256(boot).digest()[:2], "big") << _BOOT_BITS


def is_free(table: Table, now: int) -> ColumnElement[bool]:
    """The SQL condition that nobody holds a row's lease at lease time ``now``."""
    until = table.c.lease_until_ms
    return or_(until.is_(None), until <= now, until > now + _LONGEST_MS)


def claim(
    connection: Connection,
    table: Table,
    where: ColumnElement[bool],
    owner: str,
    *,
    ttl_ms: int = TTL_MS,
    values: dict[str, Any] | None = None,
) -> int | None:
    """Take the one row that ``where`` names if its lease is free; returns the new fence, or None. Compare-and-set."""
    now = now_ms(connection)
    statement = (
        update(table)
        .where(and_(where, is_free(table, now)))
        .values(lease_owner=owner, lease_until_ms=now + ttl_ms, fence=table.c.fence + 1, **(values or {}))
        .returning(table.c.fence)
    )
    row = connection.execute(statement).first()
    return None if row is None else int(row[0])


def renew(
    connection: Connection, table: Table, where: ColumnElement[bool], owner: str, fence: int, *, ttl_ms: int = TTL_MS
) -> bool:
    """Extend a lease still held under ``fence``; False when it was lost."""
    now = now_ms(connection)
    statement = (
        update(table).where(and_(where, table.c.lease_owner == owner, table.c.fence == fence)).values(lease_until_ms=now + ttl_ms)
    )
    return connection.execute(statement).rowcount == 1


def release(connection: Connection, table: Table, where: ColumnElement[bool], fence: int) -> None:
    """Give the lease back if it is still held under ``fence``."""
    connection.execute(update(table).where(and_(where, table.c.fence == fence)).values(lease_owner=None, lease_until_ms=None))


def check(connection: Connection, table: Table, where: ColumnElement[bool], fence: int) -> None:
    """Raise FenceLost unless the row still carries ``fence``. The row is locked, so a later claim must wait for this
    transaction."""
    statement = select(table.c.fence).where(and_(where, table.c.fence == fence)).with_for_update()
    if connection.execute(statement).first() is None:
        raise FenceLost("the claim was taken over; nothing is written")
