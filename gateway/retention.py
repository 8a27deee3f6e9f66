"""Blanks bodies that are older than the settings keep them; which columns is declared on the tables themselves (N-10)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, Column, Connection, LargeBinary, Table, and_, func, null, or_, select, update

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
            while True:
                count = await services.database.write(lambda c, t=table, k=columns: blank(c, t, k, before_ms, _BATCH))  # type: ignore[misc]
                total += count
                if count < _BATCH:
                    break
        await services.database.write(lambda connection: mark_done(connection, _NAME, now))
        if total:
            log(_logger, "retention.blanked", rows=total)
        return total

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


def blank(connection: Connection, table: Table, columns: list[Column[Any]], before_ms: int, limit: int) -> int:
    """Blank the given columns of at most ``limit`` settled rows from before ``before_ms``; returns how many."""
    key = next(iter(table.primary_key.columns))
    moment = next(table.c[name] for name in _MOMENTS if name in table.c)
    filled = or_(*(_is_filled(column) for column in columns))
    conditions = [moment < before_ms, filled]
    if table.name in _OPEN:
        conditions.append(table.c.status.not_in(_OPEN[table.name]))
    keys = list(connection.execute(select(key).where(and_(*conditions)).limit(limit)).scalars())
    if keys:
        values = {column.name: null() if column.nullable else _empty(column) for column in columns}
        connection.execute(update(table).where(key.in_(keys)).values(**values))
    return len(keys)


def _is_filled(column: Column[Any]) -> Any:
    if column.nullable:
        return column.is_not(null())
    return func.length(column) > 0


def _empty(column: Column[Any]) -> Any:
    if isinstance(column.type, JSON):
        return {}
    return b"" if isinstance(column.type, LargeBinary) else ""
