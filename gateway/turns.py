"""Runs the waiting turns of a conversation, in order, under its claim: the same code in gateway and worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, select, update

from agent.protocol import Deadline, Reply, TurnResult
from agent.services import AgentServices
from agent.turn import run_turn
from config.claim import Claim
from config.columns import table_of
from config.errors import DatabaseBusy, FenceLost, YizhanError
from config.ids import new_id
from config.logging import get_logger, log
from config.patience import write_patiently
from gateway import texts
from gateway.answers import Stored, store_answer, store_job, stored_before
from gateway.batches import Batch, Held, take_batch, wait_again
from gateway.capabilities import Capabilities
from gateway.models import Inbound
from gateway.outbox import SqlOutbox
from gateway.sessions import ConversationClaim, check_fence, claim_conversation, release, release_if_idle
from gateway.slots import FairSlots
from gateway.waiters import Waiters

_ROW = table_of(Inbound)
_logger = get_logger(__name__)
MAX_ATTEMPTS = 2
MAX_DEATHS = 5
"""N-07: two attempts that fail by themselves, or five whose process died."""
_CLAIM_RETRIES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5)


class StopFlag:
    """One running turn's stop signal: set by its person, or when its claim was lost."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def requested(self) -> bool:
        """True once the turn should end."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return when the turn should end."""
        await self._event.wait()

    def set(self) -> None:
        """Ask the turn to end; safe from any thread."""
        self._loop.call_soon_threadsafe(self._event.set)


class TurnRunner:
    """Drains conversations. At most one drain a conversation and process; the claim makes it one over all processes."""

    def __init__(
        self,
        services: AgentServices,
        outbox: SqlOutbox,
        capabilities: Capabilities,
        waiters: Waiters,
        owner: str | None = None,
    ) -> None:
        self.owner = owner or new_id("o")
        self._services = services
        self._database = services.database
        self._outbox = outbox
        self._capabilities = capabilities
        self._waiters = waiters
        self._slots = FairSlots(services.settings.limits.concurrent_turns)
        self._drains: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, Held | None] = {}
        """Conversations somebody asked for while their drain was on its way, with the claim that came along, if any: the
        drain may have looked for rows already, so it looks once more."""
        self._stops: dict[str, StopFlag] = {}
        self._ringing: set[asyncio.Task[None]] = set()
        self._closing = False

    def is_draining(self, conversation: str) -> bool:
        """Whether this process is working on the conversation."""
        return conversation in self._drains

    def may_claim(self, conversation: str) -> bool:
        """Whether a fresh message of the conversation should bring its claim along."""
        return not self._closing and conversation not in self._drains

    def start(self, conversation: str, held: Held | None = None) -> asyncio.Task[None] | None:
        """Begin draining unless already at it. ``held`` is a claim this process has already."""
        if conversation in self._drains:
            self._again[conversation] = held or self._again.get(conversation)
            return self._drains[conversation]
        if self._closing:
            self.ring_soon(conversation, "turn")  # what came while we leave is somebody else's
            return None
        task = asyncio.create_task(self._drain(conversation, held))
        self._drains[conversation] = task
        task.add_done_callback(lambda done: self._drained(conversation, done))
        return task

    def stop_local(self, conversation: str) -> None:
        """Tell the turn running here, if any, to stop at once."""
        if (flag := self._stops.get(conversation)) is not None:
            flag.set()

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let running turns finish for ``grace_s``, then stop them and ring for others to go on with them."""
        self._closing = True
        running = dict(self._drains)
        if running:
            _, late = await asyncio.wait(running.values(), timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            cut_off = [conversation for conversation, task in running.items() if task in late]
            await asyncio.gather(*(self._services.bell.ring("turn", conversation) for conversation in cut_off))

    def _drained(self, conversation: str, task: asyncio.Task[None]) -> None:
        self._drains.pop(conversation, None)
        asked_again, held = conversation in self._again, self._again.pop(conversation, None)
        if task.cancelled():
            return
        if asked_again:
            self.start(conversation, held)
        error = task.exception()
        if error is not None:
            typed = isinstance(error, YizhanError)
            log(_logger, "turn.drain_failed", logging.WARNING if typed else logging.ERROR, conversation=conversation, error=error)

    async def _drain(self, conversation: str, held: Held | None) -> None:
        held = held or await self._claim(conversation)
        if held is None:
            return
        claim, batch = ConversationClaim(self._database, conversation, self.owner, held.fence), held.batch
        released, cut_off = False, None
        try:
            while not claim.lost.is_set():
                self._again.pop(conversation, None)
                if batch is None:
                    batch = await self._database.write(lambda c: take_batch(c, conversation, claim.fence))
                if batch is None:
                    released = True
                    return
                released = await self._run(claim, batch)
                if released:
                    return
                batch = None
        except FenceLost:
            log(_logger, "turn.fence_lost", conversation=conversation, fence=claim.fence)
        except asyncio.CancelledError:
            cut_off = batch
            raise
        finally:
            claim.close()
            if not released:
                await self._give_back(claim, cut_off)

    async def _give_back(self, claim: ConversationClaim, cut_off: Batch | None) -> None:
        """Release early so another process need not wait for the lease to run out. A turn that was ``cut_off`` because this
        process ends waits again: nobody died (N-07)."""

        def give_back(connection: Connection) -> None:
            if cut_off is not None:
                check_fence(connection, claim.conversation, claim.fence)
                wait_again(connection, cut_off.seqs)
            release(connection, claim.conversation, claim.fence)

        with contextlib.suppress(YizhanError):
            await asyncio.shield(self._database.write(give_back))

    async def _claim(self, conversation: str) -> Held | None:
        """Take the claim; while another process holds it, keep trying a little, in case it is just letting go."""
        for pause_s in (*_CLAIM_RETRIES_S, None):
            offered = self._again.pop(conversation, None)
            if offered is not None:
                return offered
            fence = await self._database.write(lambda c: claim_conversation(c, conversation, self.owner))
            if fence is not None:
                return Held(fence)
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        return None

    async def _run(self, claim: ConversationClaim, batch: Batch) -> bool:
        """One turn from its messages to its committed answer; True when the claim was given back with it."""
        stop = StopFlag()
        if batch.stop_requested:
            stop.set()
        claim.also(lambda connection: _look_for_stop(connection, batch.seqs, stop))
        self._stops[claim.conversation] = stop
        lost = asyncio.create_task(stop_when_lost(claim, stop))
        try:
            if batch.deaths >= MAX_DEATHS:
                result = _dead(batch)
            else:
                async with self._slots.hold(batch.where.tenant_id):
                    log(_logger, "turn.started", seq=batch.seqs[0], attempt=batch.attempts + 1, deaths=batch.deaths)
                    result = await self._answer(batch, stop)
            return await self._commit(claim, batch, result)
        finally:
            lost.cancel()
            claim.forget()
            self._stops.pop(claim.conversation, None)

    async def _answer(self, batch: Batch, stop: StopFlag) -> TurnResult:
        capability = self._capabilities.of(batch.where.account_id)
        deadline = Deadline(self._services.clock.monotonic() + self._services.settings.limits.turn_s)
        attempts = batch.attempts
        while True:
            try:
                return await run_turn(self._services, batch.message, batch.where, deadline, capability, stop)
            except FenceLost:
                raise
            except Exception as error:  # noqa: BLE001 -- the turn's boundary: whatever failed in it is this turn's failure
                attempts += 1
                code = error.code if isinstance(error, YizhanError) else type(error).__name__
                log(_logger, "turn.failed", seq=batch.seqs[0], attempt=attempts, code=code)
                if attempts >= MAX_ATTEMPTS:
                    return _dead(batch, code)
                await self._count_attempt(batch, attempts)

    async def _count_attempt(self, batch: Batch, attempts: int) -> None:
        """Remember a failed attempt, for the process that takes over should this one die (N-07)."""
        counted = update(_ROW).where(_ROW.c.seq.in_(batch.seqs)).values(attempts=attempts)
        with contextlib.suppress(YizhanError):
            await self._database.write(lambda c: c.execute(counted))

    async def _commit(self, claim: ConversationClaim, batch: Batch, result: TurnResult) -> bool:
        """Store the answer and tell whoever waits; True when the claim was given back with it."""
        self._again.pop(claim.conversation, None)
        try:
            stored, released = await self._store(claim, batch, result)
        except (FenceLost, DatabaseBusy):
            raise
        except Exception as error:  # noqa: BLE001 -- what cannot be stored never can be: the turn is not run again for it
            log(_logger, "turn.not_storable", logging.ERROR, seq=batch.seqs[0], error=error)
            result = _dead(batch, "not_storable")
            stored, released = await self._store(claim, batch, result)
        log(_logger, "turn.stored", seq=batch.seqs[0], outcome=result.outcome, joined=len(batch.seqs) - 1)
        await self.announce(batch.seqs, stored)
        return released

    async def _store(self, claim: ConversationClaim, batch: Batch, result: TurnResult) -> tuple[Stored, bool]:
        capability = self._capabilities.of(batch.where.account_id)
        now, tries = self._services.clock.now_ms(), 0

        def write(connection: Connection) -> tuple[Stored, bool]:
            nonlocal tries
            tries += 1
            check_fence(connection, claim.conversation, claim.fence)
            stored = stored_before(connection, batch.seqs[0]) if tries > 1 else None
            if stored is None:
                for change in result.writes:
                    change(connection)
                stored = store_answer(
                    connection,
                    self._outbox,
                    batch.where,
                    batch.message,
                    batch.seqs,
                    result.replies,
                    capability=capability,
                    reserve_ms=self._waiters.reserve_ms(batch.seqs),
                    status=_status(result),
                    now_ms=now,
                    error_code=result.error_code,
                )
                if result.job is not None:
                    stored = replace(stored, job_id=store_job(connection, batch.where, result.job, batch.seqs[0], now))
            return stored, release_if_idle(connection, claim.conversation, claim.fence)

        return await write_patiently(self._database, write)

    def ring_soon(self, key: str, queue: str = "outbox") -> None:
        """Ring from where nothing can be awaited."""
        task = asyncio.create_task(self._services.bell.ring(queue, key))
        self._ringing.add(task)
        task.add_done_callback(self._ringing.discard)

    async def ring_outbox(self, key: str) -> None:
        """Wake delivery: something became due."""
        await self._services.bell.ring("outbox", key)

    async def announce(self, seqs: Sequence[int], stored: Stored) -> None:
        """Tell whoever waits; without anybody waiting a reservation is given to delivery at once. What stands behind a
        reserved answer cannot go before it: whoever takes that one rings."""
        taken = self._waiters.resolve(seqs, stored.group)
        if stored.group is not None and not (stored.reserved and taken):
            if stored.reserved:
                group = stored.group
                with contextlib.suppress(DatabaseBusy):  # then delivery finds the reservation that ran out
                    await self._database.write(lambda c: self._outbox.release_passive(c, group))
            await self._services.bell.ring("outbox", stored.group)
        if stored.job_id is not None:
            await self._services.bell.ring("task", stored.job_id)


def _look_for_stop(connection: Connection, seqs: Sequence[int], stop: StopFlag) -> None:
    asked = select(_ROW.c.seq).where(_ROW.c.seq.in_(seqs), _ROW.c.stop_requested.is_(True)).limit(1)
    if connection.execute(asked).first() is not None:
        stop.set()


async def stop_when_lost(claim: Claim, stop: StopFlag) -> None:
    """Ask the work to end once its claim is somebody else's."""
    await claim.lost.wait()
    stop.set()


def _dead(batch: Batch, code: str = "died") -> TurnResult:
    question = texts.quote(batch.message.text)
    apology = texts.APOLOGY.format(question=question) if question else texts.APOLOGY_EMPTY
    return TurnResult(replies=(Reply(apology),), outcome="failed", error_code=code)


def _status(result: TurnResult) -> str:
    return {"failed": "failed", "stopped": "stopped"}.get(result.outcome, "done")
