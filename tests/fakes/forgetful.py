"""A database that commits a write and says it failed: the server was lost between its commit and its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from config.database import Database
from config.errors import DatabaseBusy

T = TypeVar("T")


class ForgetfulDatabase:
    """``database`` with the answers of the next ``lose`` writes lost after their commit."""

    def __init__(self, database: Database, lose: int = 0) -> None:
        self._database = database
        self.dialect = database.dialect
        self.lose = lose

    async def write(self, fn: Callable[[Connection], T], **options: bool) -> T:
        """See Database.write."""
        result = await self._database.write(fn, **options)
        if self.lose > 0:
            self.lose -= 1
            raise DatabaseBusy("the connection was lost after the commit")
        return result

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """See Database.read."""
        return await self._database.read(fn)

    async def close(self) -> None:
        """See Database.close."""
        await self._database.close()
