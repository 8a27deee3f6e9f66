"""Claim, renew, fence: the one lease mechanism for turns, jobs, outbox rows, actions and the reaper.

A leased table has ``lease_owner`` (text), ``lease_until_ms`` and ``fence`` (integers). Lease time is the database's own:
PostgreSQL's clock there, the machine's monotonic clock on SQLite (one machine, no jumps). Each boot of the machine has its
own stretch of numbers, so that a lease from before a reboot, or from another machine's copy of the file, is past or too far
ahead, and free either way. Lease time is never compared with wall time or across machines (N-08).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, Update, and_, bindparam, or_, select, text, update
from sqlalchemy.sql.dml import ReturningUpdate

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
    return _free(table, now, now + _LONGEST_MS)


def _free(table: Table, now: Any, far: Any) -> ColumnElement[bool]:
    until = table.c.lease_until_ms
    return or_(until.is_(None), until <= now, until > far)


class Leased:
    """The row of a leased table that ``where`` names. Statements are built once for each object: a busy caller keeps one
    whose ``where`` has bind parameters, and gives their values as ``given``."""

    def __init__(self, table: Table, where: ColumnElement[bool]) -> None:
        self._table = table
        self._where = where

    def claim(
        self,
        connection: Connection,
        owner: str,
        *,
        ttl_ms: int = TTL_MS,
        values: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Take the row if its lease is free; returns the new fence, or None. Compare-and-set."""
        now = now_ms(connection)
        statement = self._claim.values(**values) if values else self._claim
        bound = {"lease_by": owner, "lease_end": now + ttl_ms, "lease_now": now, "lease_far": now + _LONGEST_MS, **(given or {})}
        row = connection.execute(statement, bound).first()
        return None if row is None else int(row[0])

    def renew(
        self, connection: Connection, owner: str, fence: int, *, ttl_ms: int = TTL_MS, given: Mapping[str, Any] | None = None
    ) -> bool:
        """Extend a lease still held under ``fence``; False when it was lost."""
        bound = {"lease_by": owner, "lease_fence": fence, "lease_end": now_ms(connection) + ttl_ms, **(given or {})}
        return connection.execute(self._renew, bound).rowcount == 1

    def release(self, connection: Connection, fence: int, given: Mapping[str, Any] | None = None) -> None:
        """Give the lease back if it is still held under ``fence``."""
        connection.execute(self._release, {"lease_fence": fence, **(given or {})})

    def check(self, connection: Connection, fence: int, given: Mapping[str, Any] | None = None) -> None:
        """Raise FenceLost unless the row still carries ``fence``. The row is locked, so a later claim must wait for this
        transaction."""
        if connection.execute(self._check, {"lease_fence": fence, **(given or {})}).first() is None:
            raise FenceLost("the claim was taken over; nothing is written")

    @cached_property
    def _held(self) -> ColumnElement[bool]:
        return and_(self._where, self._table.c.fence == bindparam("lease_fence"))

    @cached_property
    def _claim(self) -> ReturningUpdate[Any]:
        table = self._table
        free = _free(table, bindparam("lease_now"), bindparam("lease_far"))
        taken = {"lease_owner": bindparam("lease_by"), "lease_until_ms": bindparam("lease_end"), "fence": table.c.fence + 1}
        return update(table).where(self._where, free).values(**taken).returning(table.c.fence)

    @cached_property
    def _renew(self) -> Update:
        mine = self._table.c.lease_owner == bindparam("lease_by")
        return update(self._table).where(self._held, mine).values(lease_until_ms=bindparam("lease_end"))

    @cached_property
    def _release(self) -> Update:
        return update(self._table).where(self._held).values(lease_owner=None, lease_until_ms=None)

    @cached_property
    def _check(self) -> Select[Any]:
        return select(self._table.c.fence).where(self._held).with_for_update()


def claim(
    connection: Connection,
    table: Table,
    where: ColumnElement[bool],
    owner: str,
    *,
    ttl_ms: int = TTL_MS,
    values: Mapping[str, Any] | None = None,
) -> int | None:
    """``Leased.claim`` of a row that is named once."""
    return Leased(table, where).claim(connection, owner, ttl_ms=ttl_ms, values=values)


def renew(
    connection: Connection, table: Table, where: ColumnElement[bool], owner: str, fence: int, *, ttl_ms: int = TTL_MS
) -> bool:
    """``Leased.renew`` of a row that is named once."""
    return Leased(table, where).renew(connection, owner, fence, ttl_ms=ttl_ms)


def release(connection: Connection, table: Table, where: ColumnElement[bool], fence: int) -> None:
    """``Leased.release`` of a row that is named once."""
    Leased(table, where).release(connection, fence)


def check(connection: Connection, table: Table, where: ColumnElement[bool], fence: int) -> None:
    """``Leased.check`` of a row that is named once."""
    Leased(table, where).check(connection, fence)
