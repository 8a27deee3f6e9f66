"""Health and readiness: the process answers; its database, Redis and schema are as it needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection

from config.database import Database
from gateway.migrate import HEAD, revision_of

if TYPE_CHECKING:
    from gateway.services import Services

T = TypeVar("T")
HEALTH_TEXT = "yizhan ok\n"
HEALTH_PREFIX = "yizhan callback"
"""What our callback URL says to a visitor; ``doctor`` knows by it that a public URL really leads here (CB-08)."""

_LIMIT_S = 2.0


async def readiness(services: Services) -> tuple[bool, dict[str, Any]]:
    """Whether this process can work, and each part's state. A platform that cannot be reached is no part of it."""
    redis, database = await asyncio.gather(services.bell.is_up(), _database(services))
    parts = {"redis": "ok" if redis else "away", **database}
    ready = all(value == "ok" for value in parts.values())
    return ready, {"ready": ready, **parts}


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


async def _database(services: Services) -> dict[str, str]:
    try:
        revision = await read_soon(services.database, revision_of)
    except Exception:  # noqa: BLE001 -- any failure is the answer "away"
        return {"database": "away"}
    return {"database": "ok", "schema": "ok" if revision == HEAD else f"at {revision or 'nothing'}, needs {HEAD}"}
