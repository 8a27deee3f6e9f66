"""Writes that wait for the disk and writes that do not, on both databases."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from sqlalchemy import Connection, func, insert, select

from config.database import Database, SqliteDatabase
from gateway.leader import LEASE

WAITS, RESTS = {"sqlite": 2, "postgresql": "on"}, {"sqlite": 1, "postgresql": "off"}


def _disk(connection: Connection) -> object:
    """How the running transaction's commit will treat the disk."""
    asked = "PRAGMA synchronous" if connection.dialect.name == "sqlite" else "SHOW synchronous_commit"
    return connection.exec_driver_sql(asked).scalar_one()


async def test_n_01_a_write_waits_for_the_disk_unless_it_says_not_to(database: Database) -> None:
    """N-01: what is told after a write is on disk; only a write that says so does not wait, and the next one does again."""
    kind = database.dialect
    assert await database.write(_disk) == WAITS[kind]
    assert await database.write(_disk, durable=False) == RESTS[kind]
    assert await database.write(_disk) == WAITS[kind]


async def test_what_does_not_wait_is_seen_at_once(database: Database) -> None:
    """A write without the disk is a commit like any other to every reader."""
    await database.write(lambda c: c.execute(insert(LEASE).values(name="quick", fence=0)), durable=False)
    assert await database.read(lambda c: c.execute(select(func.count()).where(LEASE.c.name == "quick")).scalar_one()) == 1


async def test_n_01_a_shared_commit_waits_for_the_disk_if_anybody_asks(tmp_path: Path) -> None:
    """N-01: who shares a commit with a write that does not wait is on disk all the same."""
    opened, free = SqliteDatabase(tmp_path / "one.db"), threading.Event()
    first = asyncio.create_task(opened.write(lambda _: free.wait(10)))
    await asyncio.sleep(0)
    together = [asyncio.create_task(opened.write(_disk, durable=durable)) for durable in (False, True)]
    await asyncio.sleep(0)
    free.set()
    assert await asyncio.gather(first, *together) == [True, 2, 2]
    await opened.close()
