"""What a person can do with the work of their conversation: pull, stop, look, retry (agent.ports.GatewayOps)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, select, update

from agent.ports import WorkView
from agent.protocol import Conversation, InboundMessage, Reply, TurnResult
from config.clock import Clock
from config.columns import table_of
from config.database import Database
from gateway import texts, wire
from gateway.capabilities import Capabilities
from gateway.inbox import OPEN
from gateway.models import Inbound, Job
from gateway.outbox_pull import on_its_way

_ROW = table_of(Inbound)
_JOB = table_of(Job)
_JOB_OPEN = ("queued", "running")


class ConversationOps:
    """SQL-backed operations; ``stop_local`` reaches a turn of this very process at once."""

    def __init__(
        self,
        database: Database,
        capabilities: Capabilities,
        clock: Clock,
        stop_local: Callable[[str], None],
    ) -> None:
        self._database = database
        self._capabilities = capabilities
        self._clock = clock
        self._stop_local = stop_local

    async def pull(self, where: Conversation) -> TurnResult:
        """What to say to 继续 when nothing is parked (parked answers are handed over by gateway.fast, in one transaction)."""
        running = await self.work(where)
        if not running:
            now, conversation = self._clock.now_ms(), where.conversation_id
            coming = await self._database.read(lambda c: on_its_way(c, conversation, now))
            return TurnResult((Reply(texts.COMING if coming else texts.NOTHING_PARKED),), "empty")
        can_push = self._capabilities.of(where.account_id).can_push
        template = texts.STILL_RUNNING_PUSH if can_push else texts.STILL_RUNNING
        return TurnResult((Reply(template.format(question=running[0].question, age_s=running[0].age_s)),), "command")

    async def stop(self, where: Conversation) -> int:
        """See GatewayOps.stop."""

        def ask(connection: Connection) -> int:
            rows = connection.execute(
                update(_ROW)
                .where(_ROW.c.conversation_id == where.conversation_id, _ROW.c.status.in_(OPEN))
                .where(_ROW.c.lane.in_(("turn", "single")), _ROW.c.seq != (where.inbound_seq or 0))
                .values(stop_requested=True)
            ).rowcount
            jobs = connection.execute(
                update(_JOB)
                .where(_JOB.c.conversation_id == where.conversation_id, _JOB.c.status.in_(_JOB_OPEN))
                .where(_JOB.c.name != "action")  # what is confirmed is stopped by its own row, or not at all
                .values(cancel_requested=True)
            ).rowcount
            return rows + jobs

        stopped = await self._database.write(ask)
        self._stop_local(where.conversation_id)
        return stopped

    async def work(self, where: Conversation) -> list[WorkView]:
        """See GatewayOps.work."""
        return await self._database.read(lambda c: self._work(c, where))

    async def retry_source(self, where: Conversation) -> InboundMessage | None:
        """See GatewayOps.retry_source."""
        newest = (
            select(_ROW.c.body)
            .where(_ROW.c.conversation_id == where.conversation_id)
            .where(_ROW.c.lane.in_(("turn", "single")), _ROW.c.joined_seq.is_(None))
            .where(_ROW.c.status.in_(("failed", "stopped", "dead")))
            .order_by(_ROW.c.seq.desc())
            .limit(1)
        )
        body: dict[str, Any] | None = await self._database.read(lambda c: c.execute(newest).scalar_one_or_none())
        return wire.from_json(body) if body else None

    def _work(self, connection: Connection, where: Conversation) -> list[WorkView]:
        now = self._clock.now_ms()
        rows = connection.execute(
            select(_ROW.c.body, _ROW.c.status, _ROW.c.received_at_ms)
            .where(_ROW.c.conversation_id == where.conversation_id, _ROW.c.status.in_(OPEN))
            .where(_ROW.c.lane.in_(("turn", "single")), _ROW.c.seq != (where.inbound_seq or 0))
            .order_by(_ROW.c.seq)
            .limit(20)
        )
        views = [_view(row.body, "", row.status, now - row.received_at_ms) for row in rows]
        asked = _JOB.outerjoin(_ROW, _ROW.c.seq == _JOB.c.inbound_seq)
        jobs = connection.execute(
            select(_JOB.c.name, _JOB.c.status, _JOB.c.created_at_ms, _ROW.c.body)
            .select_from(asked)
            .where(_JOB.c.conversation_id == where.conversation_id, _JOB.c.status.in_(_JOB_OPEN))
            .order_by(_JOB.c.created_at_ms)
            .limit(20)
        )
        return views + [_view(job.body, job.name, job.status, now - job.created_at_ms) for job in jobs]


def _view(body: dict[str, Any] | None, job: str, status: str, age_ms: int) -> WorkView:
    """A job is known by the message that asked for it; one without (a click) by what it is."""
    question = texts.quote((body or {}).get("text", "")) or texts.JOB_NAMES.get(job, "")
    return WorkView(question, texts.WORK_RUNNING if status == "running" else texts.WORK_QUEUED, max(0, age_ms // 1000))
