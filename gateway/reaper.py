"""The reaper: every ten seconds, in one process, finds work whose doer is gone and rings for it again (N-09)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, and_, or_, select, true, update

from config import lease
from config.columns import table_of
from config.errors import YizhanError
from config.logging import get_logger, log
from gateway.inbox import OPEN
from gateway.leader import lead, step_down
from gateway.models import Inbound, Job
from memory.models import Conversation

if TYPE_CHECKING:
    from gateway.services import Services

EVERY_S = 10.0
LEAD_MS = 15_000
"""How long the right to reap outlives the process that had it."""

REMIND_S = 2.0
AT_MOST = 64
"""Rings a pass, of all kinds together."""
ACTIONS_AT_MOST = 32
"""Of them for actions left behind, so that neither kind starves the other."""

NOT_WITHIN_MS = 30_000
"""Nothing is rung twice within this."""

FRESH_MS = 5_000
"""An inbound row younger than this is still in the hands that took it."""

HOMELESS_MS = 15 * 60_000
"""How long work of an account that is not in these settings is left to a process that may know the account."""

_NAME = "reaper"
_INBOUND, _JOB, _CONVERSATION = table_of(Inbound), table_of(Job), table_of(Conversation)
_logger = get_logger(__name__)
Ring = tuple[str, str]


class Reaper:
    """One per serving process; a lease lets one of them work. A pass that fails is only late."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._owner = f"{services.owner}-r"
        self._here: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Reap until ``stop``, then give the right back."""
        while not stop.is_set():
            try:
                await self.pass_once()
            except YizhanError as error:
                log(_logger, "reaper.late", logging.WARNING, code=error.code)
            except Exception as error:  # noqa: BLE001 -- a process boundary: it logs and lives on
                log(_logger, "reaper.failed", logging.ERROR, error=error)
            try:
                await asyncio.wait_for(stop.wait(), EVERY_S)
            except TimeoutError:
                continue
        await self._services.database.write(lambda connection: step_down(connection, _NAME, self._owner))

    async def pass_once(self) -> int:
        """One look at everything; returns how many bells were rung, 0 when another process is the reaper."""
        services = self._services
        if not await services.database.write(lambda c: lead(c, _NAME, self._owner, ttl_ms=LEAD_MS)):
            return 0
        started = time.monotonic()
        now = services.clock.now_ms()
        groups = await self._actions()
        for group in groups:
            await services.bell.ring("outbox", group)
        rings = await services.database.write(lambda c: self._overdue(c, now, AT_MOST - len(groups)))
        for number, (queue, key) in enumerate(rings):
            await services.bell.ring(queue, key)
            if await self._nobody_hears():
                self._work_here(rings[number:])
                break
        if rings or groups:
            took_ms = int((time.monotonic() - started) * 1000)
            log(_logger, "reaper.rang", work=len(rings), outbox=len(groups), took_ms=took_ms)
        return len(rings) + len(groups)

    async def _actions(self) -> list[str]:
        """Actions left behind: their room knows what to do; we ring for what it stored."""
        try:
            return list(await self._services.executor.reap(ACTIONS_AT_MOST))
        except YizhanError as error:
            log(_logger, "reaper.late", logging.WARNING, room="actions", code=error.code)
            return []

    async def _nobody_hears(self) -> bool:
        """Whether the last ring was lost for good; a slow moment of a Redis that is there was none."""
        bell = self._services.bell
        error = bell.last_ring_error
        return error is not None and not (isinstance(error, TimeoutError) and await bell.is_up())

    def _work_here(self, rings: Sequence[Ring]) -> None:
        """Conversations that were left behind while Redis takes no wake-up: this process can run their turns as well."""
        services = self._services
        for conversation in (key for queue, key in rings if queue == "turn"):
            task = asyncio.create_task(services.dispatcher.run_waiting(conversation, dict(services.channels)))
            self._here.add(task)
            task.add_done_callback(self._worked)
        log(_logger, "reaper.works_here", logging.WARNING, conversations=len(self._here))

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._here.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log(_logger, "reaper.late", logging.WARNING, room="turns", error=error)

    def _overdue(self, connection: Connection, now_ms: int, limit: int) -> list[Ring]:
        accounts = tuple(self._services.channels)
        ended = end_homeless(connection, accounts, now_ms)
        if ended:
            log(_logger, "reaper.no_account", logging.WARNING, ended=ended)
        return overdue(connection, now_ms, limit, accounts)

    async def run_reminders(self, stop: asyncio.Event) -> None:
        """Fire reminders that are due, every two seconds, in every process: a claim a reminder makes it one."""
        from tools.builtin.reminder import fire_due

        services = self._services
        while not stop.is_set():
            try:
                for group in await fire_due(services.database, services.outbox, services.clock):
                    await services.bell.ring("outbox", group)
            except YizhanError as error:
                log(_logger, "reminders.late", logging.WARNING, code=error.code)
            try:
                await asyncio.wait_for(stop.wait(), REMIND_S)
            except TimeoutError:
                continue


def end_homeless(connection: Connection, accounts: Collection[str], now_ms: int) -> int:
    """End the open messages and jobs of accounts that left the settings; returns how many. Not at once: another process may
    have been started with newer settings."""
    old = now_ms - HOMELESS_MS
    messages = and_(_INBOUND.c.status.in_(OPEN), _INBOUND.c.lane != "none", _INBOUND.c.received_at_ms <= old)
    free = lease.is_free(_JOB, lease.now_ms(connection))
    jobs = and_(_JOB.c.status.in_(("queued", "running")), free, _JOB.c.created_at_ms <= old)
    count = 0
    for table, where, status in ((_INBOUND, messages, "failed"), (_JOB, jobs, "dead")):
        values = {"status": status, "error_code": "no_account", "finished_at_ms": now_ms}
        homeless = and_(where, table.c.account_id.not_in(accounts))
        count += connection.execute(update(table).where(homeless).values(**values)).rowcount
    return count


def overdue(connection: Connection, now_ms: int, limit: int = AT_MOST, accounts: Collection[str] | None = None) -> list[Ring]:
    """Rows whose doer is gone, marked as rung: at most ``limit``, oldest first, none twice in ``NOT_WITHIN_MS``; only those
    of ``accounts`` where they are given."""
    lease_now = lease.now_ms(connection)
    rings = _conversations(connection, now_ms, lease_now, limit, accounts)
    return rings + _jobs(connection, now_ms, lease_now, limit - len(rings), accounts)


def _conversations(
    connection: Connection, now_ms: int, lease_now: int, limit: int, accounts: Collection[str] | None
) -> list[Ring]:
    """Conversations with open messages that nobody holds a lease on."""
    query = (
        select(_INBOUND.c.seq, _INBOUND.c.conversation_id)
        .join(_CONVERSATION, _CONVERSATION.c.id == _INBOUND.c.conversation_id)
        .where(_INBOUND.c.status.in_(("received", "running")), _INBOUND.c.lane != "none")
        .where(lease.is_free(_CONVERSATION, lease_now), _is_old(_INBOUND.c.received_at_ms, now_ms, FRESH_MS))
        .where(_not_rung(_INBOUND, now_ms), _at_home(_INBOUND, accounts))
        .order_by(_INBOUND.c.seq)
        .limit(limit * 4)
    )
    first: dict[str, int] = {}
    for seq, conversation in connection.execute(query):
        if conversation not in first and len(first) < limit:
            first[conversation] = seq
    if first:
        mine = and_(_INBOUND.c.conversation_id.in_(first), _INBOUND.c.status.in_(("received", "running")))
        connection.execute(update(_INBOUND).where(mine).values(rung_at_ms=now_ms))
    return [("turn", conversation) for conversation in first]


def _jobs(connection: Connection, now_ms: int, lease_now: int, limit: int, accounts: Collection[str] | None) -> list[Ring]:
    if limit <= 0:
        return []
    query = (
        select(_JOB.c.id, _JOB.c.queue)
        .where(_JOB.c.status.in_(("queued", "running")), lease.is_free(_JOB, lease_now))
        .where(_is_old(_JOB.c.created_at_ms, now_ms, FRESH_MS), _not_rung(_JOB, now_ms), _at_home(_JOB, accounts))
        .order_by(_JOB.c.created_at_ms)
        .limit(limit)
    )
    found = [(str(queue), str(job)) for job, queue in connection.execute(query)]
    if found:
        connection.execute(update(_JOB).where(_JOB.c.id.in_([job for _, job in found])).values(rung_at_ms=now_ms))
    return found


def _not_rung(table: Table, now_ms: int) -> Any:
    return or_(table.c.rung_at_ms.is_(None), _is_old(table.c.rung_at_ms, now_ms, NOT_WITHIN_MS))


def _is_old(stamp: Any, now_ms: int, age_ms: int) -> Any:
    """Whether a time stamp lies ``age_ms`` back. One as far ahead was written before somebody set the clock back: old too."""
    return or_(stamp <= now_ms - age_ms, stamp > now_ms + age_ms)


def _at_home(table: Table, accounts: Collection[str] | None) -> Any:
    return true() if accounts is None else table.c.account_id.in_(accounts)
