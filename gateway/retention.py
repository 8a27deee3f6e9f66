"""Blanks bodies that are older than the settings keep them; which columns is declared on the tables themselves (N-10)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, Column, Connection, LargeBinary, Table, func, null, or_, select, update

from config.errors import YizhanError
from config.logging import get_logger, log
from gateway.leader import done_at_ms, lead, mark_done, step_down
from gateway.migrations.tables import METADATA

if TYPE_CHECKING:
    from gateway.services import Services

EVERY_S = 3600.0
_DAY_MS = 24 * 3600 * 1000
_BATCH = 500
_NAME = "retention"
_MOMENTS = ("received_at_ms", "created_at_ms")
_OPEN = {
    "inbound": ("received", "running"),
    "outbox_message": ("passive_reserved", "pending", "sending", "parked"),
    "pending_action": ("pending", "confirmed", "executing"),
}
"""States in which a row's bodies are still needed, however old they are."""

_logger = get_logger(__name__)


class BodyRetention:
    """One pass an hour in one process of the deployment."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._owner = f"{services.owner}-k"

    async def run(self, stop: asyncio.Event) -> None:
        """Blank what is old until ``stop``."""
        while not stop.is_set():
            try:
                await self.pass_once()
            except YizhanError as error:
                log(_logger, "retention.late", logging.WARNING, code=error.code)
            try:
                await asyncio.wait_for(stop.wait(), EVERY_S / 60)
            except TimeoutError:
                continue
        await self._services.database.write(lambda connection: step_down(connection, _NAME, self._owner))

    async def pass_once(self) -> int:
        """Blank everything that is due, in small transactions; returns the rows touched. 0 when it is not our turn."""
        services = self._services
        now = services.clock.now_ms()
        if not await services.database.write(lambda connection: self._may_start(connection, now)):
            return 0
        before_ms = now - services.settings.retention.body_days * _DAY_MS
        total = 0
        for table, columns in body_columns():
            total += await self._blank_table(table, columns, before_ms)
        await services.database.write(lambda connection: mark_done(connection, _NAME, now))
        if total:
            log(_logger, "retention.blanked", rows=total)
        return total

    async def _blank_table(self, table: Table, columns: list[Column[Any]], before_ms: int) -> int:
        """One walk over the table in the order of its key: looking is a read and keeps no writer waiting, whatever the table
        has grown to."""
        database, after, total = self._services.database, None, 0
        while True:
            keys = await database.read(lambda c: due(c, table, columns, before_ms, after=after, limit=_BATCH))  # noqa: B023
            if keys:
                total += await database.write(lambda c: blank(c, table, columns, before_ms, keys))  # noqa: B023
            if len(keys) < _BATCH:
                return total
            after = keys[-1]

    def _may_start(self, connection: Connection, now_ms: int) -> bool:
        if not lead(connection, _NAME, self._owner, ttl_ms=120_000):
            return False
        done = done_at_ms(connection, _NAME)
        return done is None or abs(now_ms - done) >= EVERY_S * 1000


def body_columns() -> list[tuple[Table, list[Column[Any]]]]:
    """Every table with columns of retention class ``body``, and those columns."""
    found = []
    for table in METADATA.sorted_tables:
        columns = [column for column in table.columns if column.info.get("retention") == "body"]
        if columns:
            found.append((table, columns))
    return found


def due(
    connection: Connection, table: Table, columns: list[Column[Any]], before_ms: int, *, after: Any = None, limit: int
) -> list[Any]:
    """Keys, in order and after ``after``, of at most ``limit`` settled rows from before ``before_ms`` with something to blank."""
    key = _key(table)
    conditions = [*_due(table, columns, before_ms), *([] if after is None else [key > after])]
    return list(connection.execute(select(key).where(*conditions).order_by(key).limit(limit)).scalars())


def blank(connection: Connection, table: Table, columns: list[Column[Any]], before_ms: int, keys: list[Any]) -> int:
    """Blank the given columns of the rows named by ``keys`` that are still due; returns how many."""
    values = {column.name: null() if column.nullable else _empty(column) for column in columns}
    statement = update(table).where(_key(table).in_(keys), *_due(table, columns, before_ms)).values(**values)
    return connection.execute(statement).rowcount


def _key(table: Table) -> Column[Any]:
    (key,) = table.primary_key.columns
    return key


def _due(table: Table, columns: list[Column[Any]], before_ms: int) -> list[Any]:
    moment = next(table.c[name] for name in _MOMENTS if name in table.c)
    conditions = [moment < before_ms, or_(*(_is_filled(column) for column in columns))]
    if table.name in _OPEN:
        conditions.append(table.c.status.not_in(_OPEN[table.name]))
    return conditions


def _is_filled(column: Column[Any]) -> Any:
    if column.nullable:
        return column.is_not(null())
    return func.length(column) > 0


def _empty(column: Column[Any]) -> Any:
    if isinstance(column.type, JSON):
        return {}
    return b"" if isinstance(column.type, LargeBinary) else ""
