"""Durable first-seen: whatever arrived while the last commit ran is stored, deduplicated and admitted in the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from agent.protocol import InboundMessage
from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.errors import DatabaseBusy
from config.schema import Limits
from gateway import wire
from gateway.batches import Held, take_batch
from gateway.lanes import Lane
from gateway.models import Inbound
from gateway.outbox import SqlOutbox
from gateway.sessions import claim_conversation, touch_conversation
from memory.keys import conversation_id

_ROW = table_of(Inbound)
_BATCH = 200
OPEN = ("received", "running")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message to be stored. ``claim_as`` names the owner that wants the conversation's claim with it, if free."""

    message: InboundMessage
    lane: Lane
    claim_as: str | None = None

    @property
    def conversation_id(self) -> str:
        """The conversation this message belongs to."""
        message = self.message
        return conversation_id(message.tenant_id, message.account_id, message.chat_type, message.peer_id)


@dataclass(frozen=True, slots=True)
class Seen:
    """The stored row. ``new`` is False for a redelivery; ``held`` is set when the claim came with it; ``flushed`` counts
    parked answers this message set free."""

    seq: int
    new: bool
    status: str
    answer_group: str | None
    deliveries: int
    held: Held | None = None
    session_id: str | None = None
    flushed: int = 0


_BEFORE = (
    _ROW.c.conversation_id == bindparam("conversation"),
    _ROW.c.user_id == bindparam("person"),  # in a group one member's flood is not the others'
    _ROW.c.seq < bindparam("me"),
)
_QUEUED = (
    select(_ROW.c.seq)
    .where(_ROW.c.status == "received", _ROW.c.tenant_id == bindparam("tenant"))
    .limit(bindparam("most"))
    .subquery()
)
_COUNTS = select(
    select(func.count()).select_from(_ROW).where(*_BEFORE, _ROW.c.status == "received").scalar_subquery(),
    select(func.count())
    .select_from(_ROW)
    .where(*_BEFORE, _ROW.c.received_at_ms > bindparam("since"), _ROW.c.received_at_ms <= bindparam("until"))
    .where(_ROW.c.lane.in_(("turn", "single")), _ROW.c.status != "refused")
    .scalar_subquery(),
    select(func.count()).select_from(_QUEUED).scalar_subquery(),
)
"""Of one person: waiting before this message, taken on in the last minute; of the tenant: waiting at all, up to a limit."""


_INSERTS = {
    name: dialect.insert(_ROW).on_conflict_do_nothing(index_elements=["key"]).returning(_ROW.c.key, _ROW.c.seq)
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}


class Inbox:
    """Group commit of inbound rows. Nothing is acknowledged before its future is done (N-01)."""

    def __init__(self, database: Database, outbox: SqlOutbox, clock: Clock, limits: Limits) -> None:
        self._database = database
        self._outbox = outbox
        self._clock = clock
        self._limits = limits
        self._waiting: list[tuple[Arrival, asyncio.Future[Seen]]] = []
        self._flusher: asyncio.Task[None] | None = None

    def submit(self, arrival: Arrival) -> asyncio.Future[Seen]:
        """Store the message, or find its first delivery, in the next commit. Await the future before acknowledging; it
        raises DatabaseBusy when nothing was stored, and is worked on whether or not anybody still waits for it."""
        future: asyncio.Future[Seen] = asyncio.get_running_loop().create_future()
        self._waiting.append((arrival, future))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush())
        return future

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                await self._store(batch)
        finally:
            self._flusher = None

    async def _store(self, batch: list[tuple[Arrival, asyncio.Future[Seen]]]) -> None:
        arrivals = [arrival for arrival, _ in batch]
        try:
            seen = await self._admit_patiently(arrivals)
        except Exception as error:  # noqa: BLE001 -- belongs to everybody whose message was in the batch
            if len(batch) > 1 and not isinstance(error, DatabaseBusy):
                for one in batch:  # a single message the database cannot take must not turn the others away
                    await self._store([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), row in zip(batch, seen, strict=True):
            if not future.done():
                future.set_result(row)

    async def _admit_patiently(self, arrivals: Sequence[Arrival]) -> list[Seen]:
        """One transaction; on PostgreSQL once more when it was chosen as a deadlock's victim (two gateways that store the
        same redeliveries in another order)."""
        try:
            return await self._database.write(lambda connection: self._admit(connection, arrivals))
        except DatabaseBusy:
            if self._database.dialect != "postgresql":
                raise
            return await self._database.write(lambda connection: self._admit(connection, arrivals))

    def _admit(self, connection: Connection, arrivals: Sequence[Arrival]) -> list[Seen]:
        fresh = _insert(connection, arrivals)
        keys = [arrival.message.idempotency_key for arrival in arrivals]
        order = sorted(range(len(arrivals)), key=lambda index: (arrivals[index].conversation_id, fresh.get(keys[index], 0)))
        seen: dict[int, Seen] = {}
        for index in order:
            seq = fresh.pop(keys[index], None)  # the first of this key; whatever else has it is a redelivery
            new = None if seq is None else self._admit_new(connection, arrivals[index], seq)
            seen[index] = new or _redelivered(connection, keys[index])
        return [seen[index] for index in range(len(arrivals))]

    def _admit_new(self, connection: Connection, arrival: Arrival, seq: int) -> Seen:
        if arrival.lane == "none":
            return Seen(seq, True, "done", None, 1)
        if arrival.lane in ("turn", "single") and self._is_too_much(connection, arrival, seq):
            waits = update(_ROW).where(_ROW.c.seq == seq, _ROW.c.status == "received")
            if connection.execute(waits.values(status="refused")).rowcount == 1:  # else one before it took it along
                return Seen(seq, True, "refused", None, 1)
        now = self._clock.now_ms()
        session_id = touch_conversation(connection, arrival.message, now)
        flushed = self._outbox.flush_parked(connection, arrival.conversation_id)
        held = None
        if arrival.claim_as is not None and arrival.lane != "fast":
            fence = claim_conversation(connection, arrival.conversation_id, arrival.claim_as)
            held = None if fence is None else Held(fence, take_batch(connection, arrival.conversation_id, fence))
        return Seen(seq, True, "received", None, 1, held, session_id, flushed)

    def _is_too_much(self, connection: Connection, arrival: Arrival, seq: int) -> bool:
        """Whether this message is beyond what one person or one tenant may have waiting (N-09)."""
        counted = {
            "conversation": arrival.conversation_id,
            "person": arrival.message.user_id,
            "tenant": arrival.message.tenant_id,
            "me": seq,
            "since": arrival.message.received_at_ms - 60_000,
            "until": arrival.message.received_at_ms + 60_000,  # later ones are from before the clock was set back
            "most": self._limits.queued_per_tenant + 1,
        }
        waiting, recent, queued = connection.execute(_COUNTS, counted).one()
        return bool(
            waiting >= self._limits.waiting_per_person
            or recent >= self._limits.turns_per_minute
            or queued > self._limits.queued_per_tenant
        )


def _insert(connection: Connection, arrivals: Sequence[Arrival]) -> dict[str, int]:
    """Insert every key once, in order of arrival (``seq`` is that order); returns key → seq of those that were new."""
    rows: dict[str, dict[str, object]] = {}
    for arrival in arrivals:
        if arrival.message.idempotency_key not in rows:
            rows[arrival.message.idempotency_key] = _values(arrival)
    found = connection.execute(_INSERTS[connection.dialect.name], list(rows.values()))
    return {key: int(seq) for key, seq in found}


def _values(arrival: Arrival) -> dict[str, object]:
    message = arrival.message
    return {
        "key": message.idempotency_key,
        "tenant_id": message.tenant_id,
        "account_id": message.account_id,
        "conversation_id": arrival.conversation_id,
        "user_id": message.user_id,
        "kind": message.kind if message.event is None else f"event:{message.event.name}",
        "lane": arrival.lane,
        "message_id": message.message_id,
        "status": "done" if arrival.lane == "none" else "received",
        "body": None if arrival.lane == "none" else wire.to_json(message),
        "deliveries": 1,
        "attempts": 0,
        "deaths": 0,
        "stop_requested": False,
        "sent_at_ms": message.sent_at_ms,
        "received_at_ms": message.received_at_ms,
    }


def _redelivered(connection: Connection, key: str) -> Seen:
    row = connection.execute(
        update(_ROW)
        .where(_ROW.c.key == key)
        .values(deliveries=_ROW.c.deliveries + 1)
        .returning(_ROW.c.seq, _ROW.c.status, _ROW.c.answer_group, _ROW.c.deliveries)
    ).one()
    return Seen(row.seq, False, row.status, row.answer_group, row.deliveries)
