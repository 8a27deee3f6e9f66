"""What a job does: claim its row, run its function under heartbeat and cancel flag, store answer and state in one commit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, select, update

from agent.protocol import Conversation, Reply, TurnResult
from config import lease
from config.claim import Claim
from config.columns import table_of
from config.errors import FenceLost, YizhanError
from config.lease import Leased
from config.logging import get_logger, log
from config.patience import write_patiently
from config.ports import Draft
from gateway import texts
from gateway.models import Inbound, Job
from gateway.turns import MAX_ATTEMPTS, MAX_DEATHS, StopFlag, stop_when_lost
from memory.models import Conversation as ConversationRow

if TYPE_CHECKING:
    from gateway.services import Services

JOB = table_of(Job)
_INBOUND = table_of(Inbound)
_CONVERSATION = table_of(ConversationRow)
OPEN = ("queued", "running")
_LOOK_S = 1.0
_logger = get_logger(__name__)

JobFunction = Callable[["Services", Mapping[str, Any], StopFlag], Awaitable[TurnResult]]


async def _doctor(services: Services, job: Mapping[str, Any], stop: StopFlag) -> TurnResult:
    from gateway.doctor import report_job

    result: TurnResult = await report_job(services, job, stop)
    return result


async def _action(services: Services, job: Mapping[str, Any], stop: StopFlag) -> TurnResult:
    """Run a confirmed action; its outcome is an outbox row of its own, so the job answers nothing."""
    await services.executor.execute(str((job["args"] or {})["action_id"]), reserve_ms=lambda: 0)
    return TurnResult(outcome="empty")


async def _tool(services: Services, job: Mapping[str, Any], stop: StopFlag) -> TurnResult:
    """A long tool's call that a turn put off."""
    from agent.long_calls import run_long_call

    person = await services.database.read(
        lambda c: c.execute(select(_CONVERSATION).where(_CONVERSATION.c.id == job["conversation_id"])).one()
    )
    where = Conversation(
        tenant_id=job["tenant_id"],
        account_id=job["account_id"],
        conversation_id=job["conversation_id"],
        session_id=job["session_id"] or person.session_id,
        user_id=job["user_id"],
        id_type=person.id_type,
        chat_type=person.chat_type,
        fence=-1,
        inbound_seq=job["inbound_seq"],
    )
    capability = services.capabilities.of(job["account_id"])
    return await run_long_call(services.agent, where, capability, job["args"] or {}, stop)


JOB_FUNCTIONS: dict[str, JobFunction] = {"doctor": _doctor, "action": _action, "tool": _tool}
"""The fixed table of what a job may be (N-19)."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job row under our lease, or one that was buried instead (``group`` is its apology's outbox group)."""

    row: Mapping[str, Any]
    fence: int
    buried: bool = False
    group: str | None = None


class JobRunner:
    """Runs jobs of this process. A lost, late or doubled call of ``run`` is harmless."""

    def __init__(self, services: Services, functions: Mapping[str, JobFunction] | None = None) -> None:
        self._services = services
        self._functions = JOB_FUNCTIONS if functions is None else functions
        self._running: dict[str, asyncio.Task[None]] = {}
        self._closing = False

    async def run(self, job_id: str) -> None:
        """Run one job if it is there, open and nobody else has it; returns when it is settled or given back."""
        if self._closing or job_id in self._running:
            return
        task = asyncio.create_task(self._run(job_id))
        self._running[job_id] = task
        try:
            await asyncio.wait({task})
            task.result()
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            if not self._closing:
                raise
        finally:
            self._running.pop(job_id, None)

    async def close(self, grace_s: float) -> None:
        """Take nothing new; what still runs after ``grace_s`` is given back to the queue, uncounted."""
        self._closing = True
        tasks = set(self._running.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=2.0)

    async def _run(self, job_id: str) -> None:
        services = self._services
        claimed = await services.database.write(lambda connection: self._claim(connection, job_id))
        if claimed is None:
            return
        if claimed.buried:
            log(_logger, "job.dead", logging.ERROR, job=job_id, name=claimed.row["name"], deaths=claimed.row["deaths"] + 1)
            await self._told(claimed.group)
            return
        started = time.monotonic()
        log(_logger, "job.started", job=job_id, name=claimed.row["name"], attempt=claimed.row["attempts"] + 1)
        stop = StopFlag()
        claim = Claim(services.database, Leased(JOB, JOB.c.id == job_id), services.owner, claimed.fence, name=job_id)
        watching = [asyncio.create_task(self._watch(job_id, stop)), asyncio.create_task(stop_when_lost(claim, stop))]
        try:
            outcome = await self._attempt(claimed, stop)
        except FenceLost:
            outcome = "fence_lost"
        finally:
            claim.close()
            for task in watching:
                task.cancel()
        log(_logger, "job.ended", job=job_id, outcome=outcome, took_ms=int((time.monotonic() - started) * 1000))

    async def _attempt(self, claimed: Claimed, stop: StopFlag) -> str:
        job = claimed.row
        try:
            function = self._functions.get(job["name"])
            if function is None:
                raise YizhanError(f"there is no job function {job['name']}", code="unknown_job")
            result = await function(self._services, job, stop)
        except FenceLost:
            raise
        except asyncio.CancelledError:
            await asyncio.shield(
                self._services.database.write(lambda connection: _give_back(connection, job["id"], claimed.fence))
            )
            return "given_back"
        except Exception as error:  # noqa: BLE001 -- the job's boundary: whatever failed is this attempt's failure
            return await self._failed(claimed, error)
        settle = partial(self._settle, claimed=claimed, result=result)
        group, status = await write_patiently(self._services.database, settle)
        await self._told(group)
        return status

    async def _failed(self, claimed: Claimed, error: Exception) -> str:
        job = claimed.row
        code = error.code if isinstance(error, YizhanError) else type(error).__name__
        log(_logger, "job.failed", logging.WARNING, job=job["id"], code=code, error=error)
        attempts = job["attempts"] + 1

        def write(connection: Connection) -> str | None:
            _still_running(connection, claimed)
            if attempts >= MAX_ATTEMPTS:
                return self._bury(connection, job, code, attempts=attempts)
            again = {"status": "queued", "attempts": attempts, "lease_owner": None, "lease_until_ms": None, "error_code": code}
            connection.execute(update(JOB).where(JOB.c.id == job["id"]).values(**again))
            return None

        group = await write_patiently(self._services.database, write)
        if attempts >= MAX_ATTEMPTS:
            await self._told(group)
            return "dead"
        await self._services.bell.ring(job["queue"], job["id"])
        return "again"

    async def _told(self, group: str | None) -> None:
        if group is not None:
            await self._services.bell.ring("outbox", group)

    async def _watch(self, job_id: str, stop: StopFlag) -> None:
        """Look for the cancel flag every second; a busy database is asked again."""
        asked = select(JOB.c.cancel_requested).where(JOB.c.id == job_id)
        while not stop.requested:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(YizhanError):
                if await self._services.database.read(lambda c: c.execute(asked).scalar()):
                    stop.set()

    # transactions -----------------------------------------------------------------------------------------------------
    def _claim(self, connection: Connection, job_id: str) -> Claimed | None:
        found = connection.execute(select(JOB).where(JOB.c.id == job_id).with_for_update()).mappings().first()
        if found is None or found["status"] not in OPEN:
            return None
        row: dict[str, Any] = {str(key): value for key, value in found.items()}
        died = row["status"] == "running"
        values = {"status": "running", "deaths": row["deaths"] + died, "started_at_ms": self._services.clock.now_ms()}
        where = and_(JOB.c.id == job_id, JOB.c.status.in_(OPEN))
        fence = lease.claim(connection, JOB, where, self._services.owner, values=values)
        if fence is None:
            return None
        if row["cancel_requested"]:
            self._end(connection, row, "cancelled", None, None)
            return None
        if row["deaths"] + died >= MAX_DEATHS:
            return Claimed(row, fence, True, self._bury(connection, row, "died", deaths=row["deaths"] + died))
        return Claimed(row, fence)

    def _settle(self, connection: Connection, claimed: Claimed, result: TurnResult) -> tuple[str | None, str]:
        job = claimed.row
        _still_running(connection, claimed)
        for change in result.writes:
            change(connection)
        group = None
        for index, reply in enumerate(result.replies):
            key = f"job:{job['id']}" if index == 0 else f"job:{job['id']}:{index}"
            stored = self._services.outbox.put(connection, job_draft(job, reply, key, _label(connection, job)))
            group = group or stored
        status = "cancelled" if result.outcome == "stopped" else "failed" if result.outcome == "failed" else "done"
        self._end(connection, job, status, group, result.error_code)
        return group, status

    def _bury(self, connection: Connection, job: Mapping[str, Any], code: str, **counts: int) -> str:
        """The end of a job that keeps failing: ``dead``, with an apology (N-07)."""
        question = _label(connection, job)
        text = texts.APOLOGY.format(question=question) if question else texts.APOLOGY_EMPTY
        group = self._services.outbox.put(connection, job_draft(job, Reply(text), f"job:{job['id']}", question))
        self._end(connection, job, "dead", group, code, **counts)
        return group

    def _end(
        self, connection: Connection, job: Mapping[str, Any], status: str, group: str | None, code: str | None, **counts: int
    ) -> None:
        values = {"status": status, "answer_group": group, "error_code": code, "args": None, **counts}
        values |= {"lease_owner": None, "lease_until_ms": None, "finished_at_ms": self._services.clock.now_ms()}
        connection.execute(update(JOB).where(JOB.c.id == job["id"]).values(**values))


def tell_progress(services: Services, connection: Connection, job: Mapping[str, Any], text: str) -> str:
    """Put a word about a running job into its conversation: the first one goes out, later ones are dropped."""
    draft = job_draft(job, Reply(text), f"job:{job['id']}:progress", _label(connection, job), final=False)
    return services.outbox.put(connection, draft)


def job_draft(job: Mapping[str, Any], reply: Reply, key: str, label: str | None, *, final: bool = True) -> Draft:
    """A message bound to exactly the person, session and conversation the job was queued for (S001-39)."""
    return Draft(
        idempotency_key=key,
        tenant_id=job["tenant_id"],
        account_id=job["account_id"],
        conversation_id=job["conversation_id"],
        user_id=job["user_id"],
        session_id=job["session_id"],
        cause="job",
        cause_id=job["id"],
        kind=reply.kind,
        text=reply.text,
        data=reply.data,
        source=reply.source,
        label=label,
        action_id=reply.action_id,
        final=final,
    )


def _still_running(connection: Connection, claimed: Claimed) -> None:
    """Raise FenceLost unless the job is still ours and not settled: also for a second try of a commit that was done."""
    lease.check(connection, JOB, and_(JOB.c.id == claimed.row["id"], JOB.c.status == "running"), claimed.fence)


def _give_back(connection: Connection, job_id: str, fence: int) -> None:
    where = and_(JOB.c.id == job_id, JOB.c.fence == fence, JOB.c.status == "running")
    connection.execute(update(JOB).where(where).values(status="queued", lease_owner=None, lease_until_ms=None))


def _label(connection: Connection, job: Mapping[str, Any]) -> str | None:
    """The question this job answers, as typed, short."""
    if job["inbound_seq"] is None:
        return None
    body = connection.execute(select(_INBOUND.c.body).where(_INBOUND.c.seq == job["inbound_seq"])).scalar()
    return texts.quote(str(body.get("text") or "")) or None if isinstance(body, dict) else None
