"""SQL access: one call is one transaction. One writer thread on SQLite, asyncpg on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool, StaticPool

from config.errors import DatabaseBusy

T = TypeVar("T")
_GROUP_LIMIT = 256
_READERS = 4
_BUSY_S = 5
_PATIENCE_MS = 8
_TROUBLE_CLASSES = frozenset({"08", "40", "53", "57", "58"})
"""SQLSTATE classes (PostgreSQL documentation, appendix A): connection, rollback by deadlock or serialization, out of
resources, operator intervention (shutting down, starting up), system error."""
_TROUBLE_STATES = frozenset({"55P03", "25006"})
"""A lock not to be had; a server that only reads, as after a failover."""
_HOLD = text("SELECT pg_advisory_xact_lock(hashtext(:key))")


class Database(Protocol):
    """The database of one process. ``fn`` is synchronous SQLAlchemy Core and must not await, sleep or keep the connection."""

    dialect: str

    async def write(self, fn: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run ``fn`` in one write transaction; when this returns it is on disk. Raises DatabaseBusy, or what ``fn`` raised.

        ``durable=False`` does not wait for the disk: what was written survives any process of ours, but a power failure may
        undo it, and so may a crash of the PostgreSQL server.
        """
        ...

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Run ``fn`` in one read transaction that sees everything committed before the call."""
        ...

    async def close(self) -> None:
        """Finish queued writes and close every connection."""
        ...


def open_database(url: str) -> Database:
    """Open ``sqlite:///path`` or ``postgresql://...`` (asyncpg). Nothing is created but the SQLite file itself."""
    if url.startswith("sqlite"):
        return SqliteDatabase(Path(url.split("///", 1)[1]))
    return PostgresDatabase(url)


def one_at_a_time(connection: Connection, key: str) -> None:
    """Wait until no other transaction holds ``key``, and hold it until this one ends: for writes that depend on what is there
    before them, such as the next free number. SQLite writes one at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(_HOLD, {"key": key})


def postgres_url(url: str) -> str:
    """``postgres://``, ``postgresql://`` or ``postgresql+driver://`` as SQLAlchemy wants it for asyncpg."""
    return f"postgresql+asyncpg://{url.split('://', 1)[1]}"


class SqliteDatabase:
    """SQLite in WAL mode with synchronous=FULL. All writes of the process go through one thread.

    Whatever queued while the last commit ran shares the next one: each function has its own savepoint, so one that
    raises undoes only itself, and nobody is told "done" before the shared commit is on disk. A group in which nobody asks
    for the disk commits with synchronous=NORMAL.
    """

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self._writes: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._synchronous = "FULL"
        self._write_engine = _sqlite_engine(path, "BEGIN IMMEDIATE", pool_size=1)
        self._read_engine = _sqlite_engine(path, "BEGIN", pool_size=_READERS)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="sql-read")
        self._writer = threading.Thread(target=self._write_loop, name="sql-write", daemon=True)
        self._closed = False
        self._writer.start()

    async def write(self, fn: Callable[[Connection], T], *, durable: bool = True) -> T:
        """See Database.write."""
        if self._closed:
            raise DatabaseBusy("the database is closed")
        future: Future[T] = Future()
        self._writes.put(_Write(fn, future, durable))
        return await asyncio.wrap_future(future)

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """See Database.read."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, fn)

    async def close(self) -> None:
        """See Database.close."""
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._writer.join)
        self._readers.shutdown(wait=True)
        self._read_engine.dispose()
        self._write_engine.dispose()

    def _read(self, fn: Callable[[Connection], T]) -> T:
        with _busy_as_typed(), self._read_engine.connect() as connection:
            return fn(connection)

    def _write_loop(self) -> None:
        while True:
            first = self._writes.get()
            if first is None:
                return
            group, ending = [first], False
            while len(group) < _GROUP_LIMIT:
                try:
                    item = self._writes.get_nowait()
                except queue.Empty:
                    break
                if item is None:
                    ending = True
                    break
                group.append(item)
            self._write_group([item for item in group if item.future.set_running_or_notify_cancel()])
            if ending:
                return

    def _write_group(self, group: list[_Write]) -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with _busy_as_typed(), self._write_engine.connect() as connection:
                self._synchronize(connection, "FULL" if any(item.durable for item in group) else "NORMAL")
                with connection.begin():
                    for item in group:
                        outcomes.append((item.future, *_run_in_savepoint(connection, item.fn, alone=len(group) == 1)))
                        failure = outcomes[-1][2]
                        if failure is not None and len(group) == 1:
                            raise failure
        except BaseException as error:  # noqa: BLE001 -- handed to whoever waits; the writer thread must live on
            for item in group:
                if not item.future.done():
                    item.future.set_exception(error)
            return
        for future, value, failure in outcomes:
            if failure is None:
                future.set_result(value)
            else:
                future.set_exception(failure)

    def _synchronize(self, connection: Connection, synchronous: str) -> None:
        """Set how the next commit treats the disk; the pragma only counts outside a transaction."""
        if synchronous != self._synchronous:
            connection.connection.cursor().execute(f"PRAGMA synchronous={synchronous}")
            self._synchronous = synchronous


class _Write(NamedTuple):
    """One queued transaction."""

    fn: Callable[[Connection], Any]
    future: Future[Any]
    durable: bool


def _run_in_savepoint(
    connection: Connection, fn: Callable[[Connection], Any], *, alone: bool
) -> tuple[Any, BaseException | None]:
    try:
        if alone:
            return fn(connection), None
        with connection.begin_nested():
            return fn(connection), None
    except OperationalError:
        raise  # the file itself is in trouble: the whole group fails
    except Exception as error:  # noqa: BLE001 -- it belongs to the caller of this one function
        return None, error


class PostgresDatabase:
    """PostgreSQL over asyncpg; functions run synchronously inside ``run_sync``."""

    dialect = "postgresql"

    def __init__(self, url: str) -> None:
        self._engine: AsyncEngine = create_async_engine(
            postgres_url(url),
            pool_size=10,
            max_overflow=10,
            pool_timeout=4,
            pool_pre_ping=False,
            hide_parameters=True,
            connect_args={"timeout": 4, "command_timeout": 30},
        )

    async def write(self, fn: Callable[[Connection], T], *, durable: bool = True) -> T:
        """See Database.write."""
        with _busy_as_typed():
            async with self._engine.begin() as connection:
                if not durable:
                    await connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
                return await connection.run_sync(fn)

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """See Database.read."""
        with _busy_as_typed():
            async with self._engine.connect() as connection:
                return await connection.run_sync(fn)

    async def close(self) -> None:
        """See Database.close."""
        await self._engine.dispose()


class _BusyAsTyped(contextlib.AbstractContextManager[None]):
    """Turns a locked, full or unreachable database into DatabaseBusy; everything else passes unchanged."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DBAPIError) and _is_trouble(error):
            raise DatabaseBusy(f"the database did not answer: {type(error.orig).__name__}: {error.orig}") from None
        if isinstance(error, PoolTimeoutError):
            raise DatabaseBusy("the database did not answer: every connection is in use") from None
        if isinstance(error, (ConnectionError, TimeoutError, OSError)) and not isinstance(error, sqlite3.Error):
            raise DatabaseBusy(f"the database cannot be reached: {type(error).__name__}") from None


def _is_trouble(error: DBAPIError) -> bool:
    """Whether the database, not the statement, is at fault, so that the same may succeed later."""
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return True
    state = str(getattr(error.orig, "sqlstate", None) or "")
    return state[:2] in _TROUBLE_CLASSES or state in _TROUBLE_STATES


def _busy_as_typed() -> _BusyAsTyped:
    return _BusyAsTyped()


def _sqlite_engine(path: Path, begin: str, *, pool_size: int) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        connect_args={"check_same_thread": False, "timeout": 5},
        hide_parameters=True,
        **({"poolclass": StaticPool} if pool_size == 1 else {"poolclass": QueuePool, "pool_size": pool_size}),
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "busy_timeout=5000",
            "foreign_keys=ON",
            "secure_delete=ON",
            "cache_size=-8000",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if os.path.exists(path):
            os.chmod(path, 0o600)

        connection.execute(f"PRAGMA busy_timeout={_PATIENCE_MS if pool_size == 1 else _BUSY_S * 1000}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        _begin_patiently(connection, begin)

    return engine


def _begin_patiently(connection: Connection, begin: str) -> None:
    """Begin as soon as the other processes let us, within 5 s. SQLite itself would look again after ever longer pauses, up to
    100 ms, and so come too late again and again where two gateways write; started anew, its pauses stay under 6 ms."""
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.exec_driver_sql(begin)
            return
        except OperationalError as error:
            code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
            if code != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
