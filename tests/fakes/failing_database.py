"""A database one of whose writes fails: before it begins, or after its commit, when only the answer was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from config.database import Database
from config.errors import DatabaseBusy

T = TypeVar("T")


class FailingDatabase:
    """``database`` whose ``fail_at``-th write from now on (from 1) fails; 0: none does. ``committed`` says on which side."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect = database.dialect
        self.fail_at = 0
        self.committed = False
        self.writes = 0

    def arm(self, fail_at: int, *, committed: bool) -> None:
        """Count anew."""
        self.fail_at, self.committed, self.writes = fail_at, committed, 0

    async def write(self, fn: Callable[[Connection], T], *, durable: bool = True) -> T:
        """See Database.write."""
        self.writes += 1
        if self.writes != self.fail_at:
            return await self._database.write(fn, durable=durable)
        if self.committed:
            await self._database.write(fn, durable=durable)
        raise DatabaseBusy("a fault was injected")

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """See Database.read."""
        return await self._database.read(fn)

    async def close(self) -> None:
        """See Database.close."""
        await self._database.close()
