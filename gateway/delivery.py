"""Delivery: finds what is due in the outbox, sends it under leases, takes over what a dead process left (N-03 to N-06)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from sqlalchemy import Connection

from config.clock import Clock
from config.database import Database
from config.errors import YizhanError
from config.ids import new_id
from config.lease import RENEW_S
from config.logging import get_logger, log
from gateway import account_state, outbox_claims, outbox_pull
from gateway.alerts import Alerts
from gateway.channel import Channel
from gateway.delivery_attempt import Observe, Sender
from gateway.delivery_gate import SendGate
from gateway.outbox import SqlOutbox
from gateway.outbox_claims import Claimed
from gateway.throttle import Throttle

POLL_S = 1.0
CONCURRENT = 4 * outbox_claims.PER_ACCOUNT
_BATCH = 64
_SLOW_ROUND_S = 30.0
_PROBE_S = 15.0
_CLOSE_S = 6.0
_logger = get_logger(__name__)


class Follower(Protocol):
    """The part of the bell that tells this process of rings (gateway.queue.RedisBell)."""

    def listen(self, queue: str, callback: Callable[[str], object]) -> None:
        """Rings of this process."""
        ...

    def follow(self, queue: str, callback: Callable[[str], object]) -> Awaitable[None]:
        """Rings of other processes, until cancelled."""
        ...


class Delivery:
    """One per serving process. Any number may share a database: claims are compare-and-set, one sender a conversation."""

    def __init__(
        self,
        database: Database,
        channels: Mapping[str, Channel],
        outbox: SqlOutbox,
        clock: Clock,
        bell: Follower | None,
        throttle: Throttle,
        alerts: Alerts,
        observe: Observe | None = None,
    ) -> None:
        self.owner = new_id("d")
        self._database = database
        self._channels = channels
        self._outbox = outbox
        self._clock = clock
        self._bell = bell
        self._sender = Sender(database, channels, outbox, clock, throttle, alerts, observe)
        self._wake = asyncio.Event()
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._busy: Counter[str] = Counter()
        self._done: dict[str, float] = {}
        self._swept_at = -POLL_S
        self._probing: asyncio.Task[None] | None = None

    def ring(self) -> None:
        """Something became due; call it on the loop's thread."""
        self._wake.set()

    @property
    def sending(self) -> int:
        """How many attempts run in this process now."""
        return len(self._sending)

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until ``stop``; then let running attempts end, at most 6 s, before the process takes its database away. What
        is cut off is found by its lease."""
        helpers = [asyncio.create_task(self._renew_leases()), asyncio.create_task(self._wake_on(stop))]
        if self._bell is not None:
            self._bell.listen("outbox", lambda _key: self.ring())
            helpers.append(asyncio.ensure_future(self._bell.follow("outbox", lambda _key: self.ring())))
        try:
            while not stop.is_set():
                await self._round()
        finally:
            await self._finish()
            helpers += [] if self._probing is None else [self._probing]
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    async def pass_once(self) -> int:
        """One look at everything: take over, expire, claim and send what is due now, to the end. Returns the attempts."""
        await self._sweep()
        if self._probing is not None:
            await self._probing
        count = 0
        while claims := await self._claim():
            count += len(claims)
            for claim in claims:
                self._start(claim)
            await asyncio.gather(*tuple(self._sending.values()))
        return count

    # the loop -------------------------------------------------------------------------------------------------------
    async def _round(self) -> None:
        """One turn of the loop: what others left once a second, then what is due; ends at a ring or after the poll interval."""
        self._wake.clear()
        try:
            if asyncio.get_running_loop().time() - self._swept_at >= POLL_S:
                self._swept_at = asyncio.get_running_loop().time()
                await self._sweep()
            if await self._database.read(lambda c: outbox_claims.has_due(c, self._clock.now_ms())):
                for claim in await self._claim():
                    self._start(claim)
        except YizhanError as error:
            log(_logger, "delivery.round_failed", logging.WARNING, code=error.code)
        except Exception as error:  # noqa: BLE001 -- the loop is a process boundary: it logs and lives on
            log(_logger, "delivery.round_failed", logging.ERROR, error=error)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._wake.wait()

    async def _wake_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.ring()

    async def _claim(self) -> list[Claimed]:
        """Claim as many due heads as there are free slots; heads held back make room for the next in line at once."""
        free = CONCURRENT - len(self._sending)
        if free <= 0:
            return []
        while True:
            now = self._clock.now_ms()
            gate, busy = SendGate(self._outbox, self._channels, now), dict(self._busy)
            claims, held = await self._database.write(
                lambda c: outbox_claims.claim(c, self.owner, now, free, gate, busy)  # noqa: B023
            )
            if held:
                log(_logger, "outbox.held", count=held)
            if claims or not held:
                return claims

    def _start(self, claim: Claimed) -> None:
        task = asyncio.create_task(self._attempt(claim))
        self._sending[claim.row["seq"]] = task
        self._busy[claim.row["account_id"]] += 1

    async def _attempt(self, claim: Claimed) -> None:
        try:
            await self._sender.deliver(claim)
        except YizhanError as error:
            log(_logger, "outbox.attempt_failed", logging.WARNING, group=claim.row["group_id"], code=error.code)
        except Exception as error:  # noqa: BLE001 -- one message's boundary; its lease makes it found again
            log(_logger, "outbox.attempt_failed", logging.ERROR, error=error, group=claim.row["group_id"])
        finally:
            self._sending.pop(claim.row["seq"], None)
            self._busy[claim.row["account_id"]] -= 1
            self.ring()  # the next in line of this conversation

    async def _finish(self) -> None:
        if not self._sending:
            return
        _, late = await asyncio.wait(set(self._sending.values()), timeout=_CLOSE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            seqs = tuple(self._sending)
            if not seqs:
                continue
            try:
                await self._database.write(lambda c: outbox_claims.renew(c, self.owner, seqs))  # noqa: B023
            except Exception as error:  # noqa: BLE001 -- without renewals every send longer than a lease would be doubled
                log(_logger, "delivery.renew_failed", logging.WARNING, error=error)

    # what others left -----------------------------------------------------------------------------------------------
    async def _sweep(self) -> None:
        """Reservations and leases that ran out; now and then parked rows and accounts in trouble."""
        found = await self._database.read(lambda c: (self._outbox.expired_reservations(c, _BATCH), outbox_claims.has_orphans(c)))
        groups, orphaned = found
        if groups:
            await self._database.write(lambda c: self._outbox.release_all(c, groups))
            log(_logger, "outbox.reservations_ended", count=len(groups))
        if orphaned:
            await self._take_over()
        if self._is_time("slow", _SLOW_ROUND_S):
            now = self._clock.now_ms()
            expired, early = await self._database.write(
                lambda c: (outbox_claims.expire_parked(c, now), outbox_claims.pull_back(c, now))
            )
            if early:
                log(_logger, "outbox.clock_behind", logging.WARNING, count=early)
            if expired:
                log(_logger, "outbox.expired", logging.WARNING, count=expired)
        if (self._probing is None or self._probing.done()) and self._is_time("probe", _PROBE_S):
            self._probing = asyncio.create_task(self._probe_troubled())

    async def _take_over(self) -> None:
        """Claim each orphan before judging it, so that of two processes one does."""

        def adopt(connection: Connection) -> list[Claimed]:
            return outbox_claims.adopt_orphans(connection, self.owner, _BATCH)

        for claim in await self._database.write(adopt):
            log(_logger, "outbox.orphan", logging.WARNING, group=claim.row["group_id"], part=claim.row["part"])
            await self._sender.take_over(claim)
        self.ring()

    async def _probe_troubled(self) -> None:
        """Ask the platforms of accounts in trouble, all at once and beside the loop: one that does not answer keeps nobody's
        messages waiting. Where one answers, what was parked for it goes on (DEL-01)."""
        try:
            found = await self._database.read(account_state.troubled)
            await asyncio.gather(*(self._probe(account) for account in found if account in self._channels))
        except Exception as error:  # noqa: BLE001 -- a background task's boundary; it is tried again in a while
            log(_logger, "delivery.probe_failed", logging.WARNING, error=error)

    async def _probe(self, account_id: str) -> None:
        try:
            found = await self._channels[account_id].probe()
        except YizhanError as error:
            log(_logger, "delivery.probe_failed", logging.WARNING, account=account_id, code=error.code)
            return
        if found == "unknown":
            return
        now = self._clock.now_ms()
        resumed = await self._database.write(lambda c: outbox_pull.resume_account(c, account_id, now))
        log(_logger, "delivery.account_well", account=account_id, resumed=resumed)
        self.ring()

    def _is_time(self, what: str, interval_s: float) -> bool:
        now = self._clock.now_ms() / 1000
        if what in self._done and 0 <= now - self._done[what] < interval_s:
            return False
        self._done[what] = now
        return True
