"""Writes that a moment of trouble must not undo: what they store exists already, or has happened already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from config.database import Database
from config.errors import DatabaseBusy
from config.logging import get_logger, log

T = TypeVar("T")
_PAUSES_S = (0.1, 0.3, 1.0, 2.0, 4.0)
_logger = get_logger(__name__)


async def write_patiently(database: Database, fn: Callable[[Connection], T]) -> T:
    """``database.write``, again while it is busy, for at most eight seconds of pauses. Raises what the last try raised.

    A try that failed may have been committed nevertheless (PostgreSQL lost right then), so ``fn`` must do nothing the second
    time or notice that it comes again.
    """
    for pause_s in _PAUSES_S:
        try:
            return await database.write(fn)
        except DatabaseBusy as error:
            log(_logger, "database.write_again", code=error.code, pause_ms=round(pause_s * 1000))
            await asyncio.sleep(pause_s)
    return await database.write(fn)
