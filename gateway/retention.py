"""What the settings keep no longer goes: bodies are blanked, rows deleted, files removed. What is kept how long is declared
on the tables themselves (N-10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, Column, ColumnElement, Connection, LargeBinary, Table, delete, func, null, or_, select, update

from config.columns import RowLife, row_life, table_of
from config.errors import YizhanError
from config.logging import get_logger, log
from gateway.day_folders import MEDIA, OUTGOING, remove_old
from gateway.leader import done_at_ms, lead, mark_done, step_down
from gateway.migrations.tables import METADATA
from gateway.models import OutboxMessage, Push

if TYPE_CHECKING:
    from gateway.services import Services

_HOUR_MS = 3600 * 1000
_DAY_MS = 24 * _HOUR_MS
_LOOK_S = 60.0
_LEAD_MS = 120_000
_BATCH = 250
_BODIES, _ROWS = "retention", "retention_rows"
"""Names of the two rights: to blank bodies, once an hour, and to delete rows, once a day. A pass reads its whole tables."""
_OPEN = {
    "inbound": ("received", "running"),
    "outbox_message": ("passive_reserved", "pending", "sending", "parked"),
    "pending_action": ("pending", "confirmed", "executing"),
}
"""States in which a row's bodies are still needed, however old they are."""

_OUTBOX, _PUSH = table_of(OutboxMessage), table_of(Push)
_logger = get_logger(__name__)


class RetentionPass:
    """Over the database in one process of the deployment at a time; over the files in every process, each has its own."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._owner = f"{services.owner}-k"

    async def run(self, stop: asyncio.Event) -> None:
        """Drop what is old until ``stop``."""
        while not stop.is_set():
            try:
                await self.remove_files()
                await self.blank_bodies()
                await self.delete_rows()
            except YizhanError as error:
                log(_logger, "retention.late", logging.WARNING, code=error.code)
            try:
                await asyncio.wait_for(stop.wait(), _LOOK_S)
            except TimeoutError:
                continue
        for name in (_BODIES, _ROWS):
            await self._services.database.write(lambda connection: step_down(connection, name, self._owner))  # noqa: B023

    async def blank_bodies(self) -> int:
        """Blank every body that is due, in small transactions; returns the rows touched. 0 when it is not our turn."""
        now = self._services.clock.now_ms()
        if not await self._may_start(_BODIES, _HOUR_MS, now):
            return 0
        before_ms, rows = now - self._services.settings.retention.body_days * _DAY_MS, 0
        for table, columns in body_columns():
            where = blankable(table, columns, before_ms)
            rows += await self._walk(table, where, lambda c, keys: blank(c, table, columns, where, keys))  # noqa: B023
        await self._ended(_BODIES, now, rows, "retention.blanked")
        return rows

    async def delete_rows(self) -> int:
        """Delete every settled row that is due, in small transactions; returns how many. 0 when it is not our turn."""
        now = self._services.clock.now_ms()
        if not await self._may_start(_ROWS, _DAY_MS, now):
            return 0
        before_ms, rows = now - self._services.settings.retention.row_days * _DAY_MS, 0
        for table, life in mortal_tables():
            where = deletable(table, life, before_ms)
            rows += await self._walk(table, where, lambda c, keys: remove(c, table, where, keys))  # noqa: B023
        await self._ended(_ROWS, now, rows, "retention.deleted")
        return rows

    async def remove_files(self) -> int:
        """Remove files that belong to bodies which are gone; parked messages may need theirs longer. Returns the folders."""
        settings = self._services.settings
        days = max(settings.retention.body_days, settings.limits.park_days)
        roots = (settings.data_dir / MEDIA, settings.data_dir / OUTGOING)
        removed = [await asyncio.to_thread(remove_old, root, self._services.clock, days) for root in roots]
        return sum(removed)

    async def _walk(self, table: Table, where: list[ColumnElement[bool]], treat: Callable[[Connection, list[Any]], int]) -> int:
        """One walk over the table in the order of its key: looking is a read and keeps no writer waiting, whatever the table
        has grown to."""
        database, after, total = self._services.database, None, 0
        while True:
            keys = await database.read(lambda c: due(c, table, where, after=after))  # noqa: B023
            if keys:
                total += await database.write(lambda c: treat(c, keys))  # noqa: B023
            if len(keys) < _BATCH:
                return total
            after = keys[-1]

    async def _may_start(self, name: str, every_ms: int, now_ms: int) -> bool:
        def decide(connection: Connection) -> bool:
            if not lead(connection, name, self._owner, ttl_ms=_LEAD_MS):
                return False
            done = done_at_ms(connection, name)
            return done is None or abs(now_ms - done) >= every_ms

        return await self._services.database.write(decide)

    async def _ended(self, name: str, now_ms: int, rows: int, action: str) -> None:
        await self._services.database.write(lambda connection: mark_done(connection, name, now_ms))
        if rows:
            log(_logger, action, rows=rows)


def body_columns() -> list[tuple[Table, list[Column[Any]]]]:
    """Every table with columns of retention class ``body``, and those columns."""
    found = []
    for table in METADATA.sorted_tables:
        columns = [column for column in table.columns if column.info.get("retention") == "body"]
        if columns:
            found.append((table, columns))
    return found


def mortal_tables() -> list[tuple[Table, RowLife]]:
    """Every table whose rows end, with what is known of their lives; pushes last, they go after their targets."""
    found = [(table, life) for table in METADATA.sorted_tables if (life := row_life(table)) is not None]
    return sorted(found, key=lambda item: item[0] is _PUSH)


def due(connection: Connection, table: Table, where: list[ColumnElement[bool]], *, after: Any = None) -> list[Any]:
    """Keys, in order and after ``after``, of at most ``_BATCH`` rows that meet ``where``."""
    key = _key(table)
    conditions = [*where, *([] if after is None else [key > after])]
    return list(connection.execute(select(key).where(*conditions).order_by(key).limit(_BATCH)).scalars())


def blank(
    connection: Connection, table: Table, columns: list[Column[Any]], where: list[ColumnElement[bool]], keys: list[Any]
) -> int:
    """Blank the given columns of the rows named by ``keys`` that still meet ``where``; returns how many."""
    values = {column.name: null() if column.nullable else _empty(column) for column in columns}
    return connection.execute(update(table).where(_key(table).in_(keys), *where).values(**values)).rowcount


def remove(connection: Connection, table: Table, where: list[ColumnElement[bool]], keys: list[Any]) -> int:
    """Delete the rows named by ``keys`` that still meet ``where``; returns how many."""
    return connection.execute(delete(table).where(_key(table).in_(keys), *where)).rowcount


def blankable(table: Table, columns: list[Column[Any]], before_ms: int) -> list[ColumnElement[bool]]:
    """Rows from before ``before_ms`` with something to blank that no work needs any more."""
    life = row_life(table)
    moment = table.c["created_at_ms" if life is None else life.moment]
    conditions = [moment < before_ms, or_(*(_is_filled(column) for column in columns))]
    if table.name in _OPEN:
        conditions.append(table.c.status.not_in(_OPEN[table.name]))
    return conditions


def deletable(table: Table, life: RowLife, before_ms: int) -> list[ColumnElement[bool]]:
    """Settled rows from before ``before_ms``; a push only when none of its targets is left."""
    conditions: list[ColumnElement[bool]] = [table.c[life.moment] < before_ms]
    if life.settled:
        conditions.append(table.c.status.in_(life.settled))
    if table is _PUSH:
        conditions.append(~select(_OUTBOX.c.seq).where(_OUTBOX.c.cause_id == _PUSH.c.id).exists())
    return conditions


def _key(table: Table) -> Column[Any]:
    (key,) = table.primary_key.columns
    return key


def _is_filled(column: Column[Any]) -> Any:
    if column.nullable:
        return column.is_not(null())
    return func.length(column) > 0


def _empty(column: Column[Any]) -> Any:
    if isinstance(column.type, JSON):
        return {}
    return b"" if isinstance(column.type, LargeBinary) else ""
