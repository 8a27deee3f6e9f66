"""Brings the database to the schema of this code, under a lock; refuses one that newer code wrote."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from config.database import postgres_url
from config.errors import DatabaseBroken, DatabaseBusy, DatabaseNewer
from config.logging import get_logger, log
from gateway import up_texts

REVISIONS = ("0001", "0002", "0003", "0004")
"""Every revision this code knows, oldest first."""

HEAD = REVISIONS[-1]
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PG_LOCK = 7_341_902_118
_logger = get_logger(__name__)


def upgrade(url: str) -> str:
    """Migrate the database at ``url`` to HEAD; returns the revision it had before ("" when new).

    Blocks; call it before the loop starts or in a thread. Safe in any number of processes at once. Raises DatabaseNewer
    when the database is at a revision this code does not know, DatabaseBroken when its file is damaged, DatabaseBusy when it
    cannot be reached: a full or read-only disk is that, too.
    """
    try:
        before = _sqlite(Path(url.split("///", 1)[1])) if url.startswith("sqlite") else asyncio.run(_postgres(url))
    except (DBAPIError, sqlite3.Error, OSError) as error:
        if (broken := damage(error)) is not None:
            raise DatabaseBroken(up_texts.BROKEN.format(path=url.split("///", 1)[1], reason=broken)) from None
        reason = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
        raise DatabaseBusy(f"the database cannot be reached for migration: {type(error).__name__}: {reason}") from None
    if before != HEAD:
        log(_logger, "database.migrated", from_revision=before or "empty", to_revision=HEAD)
    return before


def damage(error: BaseException) -> str | None:
    """SQLite's words when an error says that the file itself is damaged or no database; None for any other error."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    final = isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
    return str(cause) if final else None


def revision_of(connection: Connection) -> str:
    """The revision a database is at, "" when it was never migrated. Cheap: no Alembic involved."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return ""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")


def _bring_up(connection: Connection) -> str:
    before = revision_of(connection)
    if before == HEAD:
        return before
    if before and before not in REVISIONS:
        raise DatabaseNewer(up_texts.NEWER.format(found=before, head=HEAD))
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
    return before


def _sqlite(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _file_lock(path.with_name(path.name + ".lock")):
        engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30}, hide_parameters=True)

        @event.listens_for(engine, "connect")
        def _configure(connection: Any, _record: object) -> None:
            os.chmod(path, 0o600)
            connection.isolation_level = None
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        try:
            with engine.begin() as connection:
                return _bring_up(connection)
        finally:
            engine.dispose()


async def _postgres(url: str) -> str:
    engine = create_async_engine(postgres_url(url), hide_parameters=True, connect_args={"timeout": 10})
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _PG_LOCK})
            return await connection.run_sync(_bring_up)
    finally:
        await engine.dispose()


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
