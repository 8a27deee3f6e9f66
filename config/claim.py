"""A lease while it is held: renewed until it is given back, and heard of when it was lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from config import lease
from config.database import Database
from config.logging import get_logger, log

_logger = get_logger(__name__)


class Claim:
    """Renews itself every 5 s from the moment it is made, on the running loop. ``lost`` is set once the row carries another
    fence; while the database is away nobody else can have taken it, so the claim goes on. ``name`` is for the log."""

    def __init__(
        self,
        database: Database,
        leased: lease.Leased,
        owner: str,
        fence: int,
        *,
        name: str,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.owner = owner
        self.fence = fence
        self.lost = asyncio.Event()
        self._database = database
        self._leased = leased
        self._name = name
        self._given = given
        self._on_renew: list[Callable[[Connection], None]] = []
        self._renewer = asyncio.create_task(self._renew())

    def also(self, work: Callable[[Connection], None]) -> None:
        """Run ``work`` in every renewal's transaction (looking for a stop request)."""
        self._on_renew.append(work)

    def forget(self) -> None:
        """Drop what ``also`` added."""
        self._on_renew.clear()

    def close(self) -> None:
        """Stop renewing; the lease runs out or was released."""
        self._renewer.cancel()

    async def _renew(self) -> None:
        while not self.lost.is_set():
            await asyncio.sleep(lease.RENEW_S)
            try:
                held = await self._database.write(self._renew_once)
            except Exception as error:  # noqa: BLE001 -- a lease that is no longer renewed for a passing fault would be taken over
                log(_logger, "claim.renew_failed", logging.WARNING, claim=self._name, error=error)
                continue
            if not held:
                log(_logger, "claim.lost", logging.WARNING, claim=self._name, fence=self.fence)
                self.lost.set()

    def _renew_once(self, connection: Connection) -> bool:
        held = self._leased.renew(connection, self.owner, self.fence, given=self._given)
        if held:
            for work in self._on_renew:
                work(connection)
        return held
