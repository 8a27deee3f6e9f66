"""Health and readiness: the process answers; its database, Redis and schema are as it needs them."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, text

from config.database import Database
from gateway.migrate import HEAD, revision_of

if TYPE_CHECKING:
    from gateway.services import Services

T = TypeVar("T")
HEALTH_TEXT = "yizhan ok\n"
HEALTH_PREFIX = "yizhan callback"
"""What our callback URL says to a visitor; ``doctor`` knows by it that a public URL really leads here (CB-08)."""

_LIMIT_S = 2.0
_PLACE = text(
    "SELECT oid || ':' || extract(epoch FROM pg_postmaster_start_time()) FROM pg_database WHERE datname = current_database()"
)


async def readiness(services: Services) -> tuple[bool, dict[str, Any]]:
    """Whether this process can work, and each part's state. A platform that cannot be reached is no part of it."""
    redis, (database, told) = await asyncio.gather(services.bell.is_up(), _database(services))
    parts = {"redis": "ok" if redis else "away", **database}
    ready = all(value == "ok" for value in parts.values())
    return ready, {"ready": ready, **parts, **told}


def database_id(connection: Connection) -> str:
    """Which database this is: the same for every process that uses it at this time, and nothing can be read from it."""
    if connection.dialect.name == "postgresql":
        place = str(connection.execute(_PLACE).scalar_one())
    else:
        files = {row[1]: row[2] for row in connection.exec_driver_sql("PRAGMA database_list")}
        found = os.stat(files["main"])
        place = f"{found.st_dev}:{found.st_ino}"
    return hashlib.sha256(place.encode()).hexdigest()[:12]


async def read_soon(database: Database, fn: Callable[[Connection], T]) -> T:
    """``database.read``, or TimeoutError after two seconds. A driver whose server hangs may take seconds more to give up; that
    is not waited for."""
    reading = asyncio.ensure_future(database.read(fn))
    done, _ = await asyncio.wait({reading}, timeout=_LIMIT_S)
    if not done:
        reading.cancel()
        reading.add_done_callback(lambda late: late.cancelled() or late.exception())
        raise TimeoutError
    return reading.result()


async def _database(services: Services) -> tuple[dict[str, str], dict[str, str]]:
    """The states of database and schema, and which database it is."""
    try:
        revision, which = await read_soon(services.database, lambda c: (revision_of(c), database_id(c)))
    except Exception:  # noqa: BLE001 -- any failure is the answer "away"
        return {"database": "away"}, {}
    schema = "ok" if revision == HEAD else f"at {revision or 'nothing'}, needs {HEAD}"
    return {"database": "ok", "schema": schema}, {"database_id": which}
