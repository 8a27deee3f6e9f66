"""What each account's channel can do, probed once, stored, and known to every process within seconds (N-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sqlalchemy import Connection, select

from agent.protocol import Capability
from config.clock import Clock
from config.database import Database
from config.errors import YizhanError
from config.logging import get_logger, log
from config.schema import MpAccount
from gateway.account_state import STATES, Ability, record_capability
from gateway.channel import Channel
from gateway.outbox_pull import begin_push

_logger = get_logger(__name__)
_REFRESH_S = 3.0


class Capabilities:
    """A read-through view of ``account_state``; an Official Account of unknown capability counts as unable to push."""

    def __init__(self, database: Database, channels: Mapping[str, Channel], clock: Clock) -> None:
        self._database = database
        self._channels = channels
        self._clock = clock
        self._known: dict[str, str] = {}

    def of(self, account_id: str) -> Capability:
        """What this account can do now, as last known; never blocks."""
        account = self._channels[account_id].account
        if not isinstance(account, MpAccount):
            return Capability(can_push=True, can_card=True, can_menu=False)
        can_push = self._known.get(account_id) == "push"
        return Capability(can_push=can_push, can_card=False, can_menu=can_push, trusted=account.mode != "plain")

    async def refresh(self) -> None:
        """Read what every process learned."""
        rows = await self._database.read(lambda c: c.execute(select(STATES.c.account_id, STATES.c.capability)).all())
        self._known = {row.account_id: row.capability for row in rows}

    async def probe_all(self, *, known_too: bool = False) -> None:
        """Ask the platforms about Official Accounts whose capability is not known, or about all of them (one that was
        verified meanwhile may push now); each at most 2 s, failures change nothing."""
        await self.refresh()
        asked = [key for key, channel in self._channels.items() if isinstance(channel.account, MpAccount)]
        if not known_too:
            asked = [key for key in asked if self._known.get(key, "unknown") == "unknown"]
        await asyncio.gather(*(self._probe(account_id) for account_id in asked))
        await self.refresh()

    async def _probe(self, account_id: str) -> None:
        channel = self._channels[account_id]
        try:
            found = await channel.probe()
        except YizhanError as error:
            log(_logger, "capability.probe_failed", account=account_id, code=error.code)
            return
        log(_logger, "capability.probed", account=account_id, capability=found)
        now = self._clock.now_ms()
        await self._database.write(lambda c: _learn(c, account_id, channel.tenant_id, found, now))

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the view fresh until ``stop``: all accounts are probed at start and every hour, unknown ones every minute."""
        rounds = 0
        while not stop.is_set():
            try:
                await (self.probe_all(known_too=rounds % 1200 == 0) if rounds % 20 == 0 else self.refresh())
            except YizhanError as error:
                log(_logger, "capability.refresh_failed", code=error.code)
            rounds += 1
            try:
                await asyncio.wait_for(stop.wait(), _REFRESH_S)
            except TimeoutError:
                continue


def _learn(connection: Connection, account_id: str, tenant_id: str, found: Ability, now_ms: int) -> None:
    """Store what a probe told; an account that turns out to push sends what it parked while that was not known."""
    if record_capability(connection, account_id, tenant_id, found, now_ms) and found == "push":
        begin_push(connection, account_id, now_ms)
