"""Reply or defer: stores a message, starts its answer, and races it against the platform's five seconds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from agent.protocol import InboundMessage
from config.columns import table_of
from config.database import Database
from config.errors import YizhanError
from config.logging import get_logger, log
from gateway import stranded, texts, wire
from gateway.batches import end_unreadable
from gateway.capabilities import Capabilities
from gateway.channel import CallbackReply, Channel, Opened, Part
from gateway.fast import PULLED, FastLane
from gateway.inbox import OPEN, Arrival, Inbox, Seen
from gateway.lanes import lane_of
from gateway.models import Inbound
from gateway.outbox import SqlOutbox
from gateway.outbox_pull import stuck_notice
from gateway.outbox_rows import offer_more
from gateway.turns import TurnRunner
from gateway.waiters import Waiter, Waiters
from memory.keys import conversation_id

_ROW = table_of(Inbound)
_logger = get_logger(__name__)
T = TypeVar("T")
CLOSE = CallbackReply(status=200, close=True)
_HOLD_FACTOR = 1.4
"""A held delivery is dropped at 1.4 times the reply deadline: 6 s, safely after the platform hung up at 5 s."""
_POLL_S = 0.2
_LAST_DELIVERY = 3
_TAKE_S = 0.45
"""How long past the deadline the row may take to be handed over; still inside the platform's five seconds."""


@dataclass(slots=True)
class _Handler:
    """One waiting HTTP handler: until when (monotonic), its place among the waiters, whether it gave up."""

    deadline: float
    waiter: Waiter | None = None
    gone: bool = False


class Dispatcher:
    """From a normalized message to exactly one HTTP answer (N-01, N-03)."""

    def __init__(
        self,
        database: Database,
        inbox: Inbox,
        outbox: SqlOutbox,
        capabilities: Capabilities,
        waiters: Waiters,
        runner: TurnRunner,
        fast: FastLane,
    ) -> None:
        self._database = database
        self._inbox = inbox
        self._outbox = outbox
        self._capabilities = capabilities
        self._waiters = waiters
        self._runner = runner
        self._fast = fast

    async def handle(self, channel: Channel, message: InboundMessage, opened: Opened, started: float) -> CallbackReply:
        """Answer one verified callback that arrived at ``started`` (monotonic). Never later than the reply deadline,
        except for held deliveries of accounts that cannot push."""
        deadline = started + channel.account.reply_deadline_s
        lane = lane_of(message, channel.account)
        arrival = Arrival(message, lane)
        if lane in ("turn", "single") and self._runner.may_claim(arrival.conversation_id):
            arrival = Arrival(message, lane, self._runner.owner)
        handler = _Handler(deadline)
        stored = self._inbox.submit(arrival)
        stored.add_done_callback(lambda done: self._begin(channel, arrival, handler, done))
        await asyncio.wait((stored,), timeout=max(0.05, deadline - time.monotonic()))
        error = TimeoutError() if not stored.done() else stored.exception()
        if error is not None:
            handler.gone = True
            log(_logger, "inbound.not_stored", logging.ERROR, account=message.account_id, code=type(error).__name__)
            return CLOSE
        seen = stored.result()
        if lane == "none":
            return _acknowledge(channel)
        if seen.status == "refused":
            return self._passive(channel, Part("text", {}, texts.TOO_MUCH), message, opened)
        return await self._race(channel, message, opened, seen, handler.waiter, arrival, started, deadline)

    async def run_waiting(self, conversation: str, channels: dict[str, Channel]) -> None:
        """Work off everything that waits in a conversation (after a crash, or when the worker is asked to)."""
        await self._database.write(lambda c: stranded.reopen_unbegun(c, conversation))
        for row in await self._database.read(lambda c: stranded.unanswered(c, conversation)):
            try:
                message = wire.from_json(row.body)
            except wire.Unreadable as error:
                code = error.code
                await self._database.write(lambda c: end_unreadable(c, row.seq, code))  # noqa: B023 -- awaited at once
                continue
            await self._fast.attempt(channels[row.account_id], message, row.seq, row.session_id or "")
        await self._database.write(lambda c: stranded.end_told_actions(c, conversation))
        task = self._runner.start(conversation)
        if task is not None:
            await asyncio.wait({task})

    def _begin(self, channel: Channel, arrival: Arrival, handler: _Handler, stored: asyncio.Future[Seen]) -> None:
        """Take the handler's place among those who wait, then start the answer of what was just stored; what was stored
        is worked on even when its handler gave up."""
        if stored.cancelled() or stored.exception() is not None:
            return
        seen = stored.result()
        log(
            _logger,
            "inbound.stored" if seen.new else "inbound.duplicate",
            logging.DEBUG if arrival.lane == "none" else logging.INFO,
            seq=seen.seq,
            account=arrival.message.account_id,
            kind=arrival.message.kind,
            lane=arrival.lane,
        )
        if arrival.lane == "none" or seen.status not in OPEN:
            return
        if not handler.gone:
            handler.waiter = self._waiters.expect(seen.seq, handler.deadline)
        if arrival.lane == "fast":
            if seen.new:
                self._fast.start(channel, arrival.message, seen.seq, seen.session_id or "")
        elif seen.new or not self._runner.is_draining(arrival.conversation_id):
            self._runner.start(arrival.conversation_id, seen.held)
        if seen.flushed:
            self._runner.ring_soon(arrival.conversation_id)

    async def _race(
        self,
        channel: Channel,
        message: InboundMessage,
        opened: Opened,
        seen: Seen,
        waiter: Waiter | None,
        arrival: Arrival,
        started: float,
        deadline: float,
    ) -> CallbackReply:
        answered, group = await self._await_answer(seen, waiter, deadline)
        if answered:
            return await self._hand_over(channel, message, opened, seen, group, deadline)
        log(_logger, "turn.deferred", seq=seen.seq, account=message.account_id)
        if self._capabilities.of(message.account_id).can_push:
            return await self._late_with_push(channel, message, opened, seen, arrival)
        return await self._late_without_push(channel, message, opened, seen, started)

    async def _await_answer(self, seen: Seen, waiter: Waiter | None, deadline: float) -> tuple[bool, str | None]:
        """Wait for the answer made here, or look for one made by another process (SQL is the truth)."""
        if waiter is None:
            return True, seen.answer_group
        try:
            while True:
                now = time.monotonic()
                until = deadline if seen.new else min(deadline, now + _POLL_S)
                answered, group = await waiter.wait(until)
                if answered:
                    return True, group
                if until >= deadline:
                    return False, None
                row = await self._look(lambda c: _state_of(c, seen.seq), deadline - now)
                if row is not None and row.status not in OPEN:
                    return True, row.answer_group
        finally:
            self._waiters.leave(waiter)

    async def _hand_over(
        self, channel: Channel, message: InboundMessage, opened: Opened, seen: Seen, group: str | None, deadline: float
    ) -> CallbackReply:
        """Take the answer for this response, or acknowledge when delivery has it or there is none.

        Nobody waits for the disk here: after a power failure in this moment the answer is still reserved, and goes by push.
        """
        if group is None:
            return _acknowledge(channel)

        where = conversation_id(message.tenant_id, message.account_id, message.chat_type, message.peer_id)
        gone = False

        def take(connection: Connection) -> tuple[Part | None, bool]:
            if gone:  # taken now it would be given to nobody, and after the last delivery never; so delivery sends it
                return None, False
            if group.startswith(PULLED):
                part = self._pulled(connection, channel, group.removeprefix(PULLED), where)
            else:
                part = self._outbox.take_passive(connection, group, taker=seen.seq)
                if part is None and not seen.new:
                    part = self._outbox.give_again(connection, group, taker=seen.seq)
            return part, self._outbox.has_pending(connection, where)

        try:
            async with asyncio.timeout(max(0.05, deadline + _TAKE_S - time.monotonic())):
                part, more = await asyncio.shield(asyncio.ensure_future(self._database.write(take, durable=False)))
        except (TimeoutError, YizhanError):
            gone = True
            return CLOSE  # whether it was taken just now is not known; a redelivery is given it again
        if more:
            self._runner.ring_soon(group)
        if part is None:
            self._runner.ring_soon(group)
            return _acknowledge(channel)
        return self._passive(channel, part, message, opened)

    async def _late_with_push(
        self, channel: Channel, message: InboundMessage, opened: Opened, seen: Seen, arrival: Arrival
    ) -> CallbackReply:
        if not seen.new or channel.platform != "wecom" or message.event is not None:
            return _acknowledge(channel)
        where, account = arrival.conversation_id, message.account_id
        known = await self._look(lambda c: (_ahead(c, where, seen.seq), stuck_notice(c, where, account)), _TAKE_S)
        ahead, stuck = known or (0, None)
        if ahead is None and not stuck:
            return _acknowledge(channel)  # a fragment of a turn whose first message is told
        notice = texts.QUEUED.format(ahead=ahead) if ahead else texts.RECEIPT
        notice = f"{notice}\n{stuck}" if stuck else notice
        return self._passive(channel, Part("text", {}, notice), message, opened)

    async def _look(self, fn: Callable[[Connection], T], within_s: float) -> T | None:
        """What the database says, or None when it does not say it in time: the message is stored, so nothing is lost."""
        try:
            async with asyncio.timeout(max(0.0, within_s)):
                return await self._database.read(fn)
        except (TimeoutError, YizhanError):
            return None

    async def _late_without_push(
        self, channel: Channel, message: InboundMessage, opened: Opened, seen: Seen, started: float
    ) -> CallbackReply:
        """Deliveries 1 and 2 stay unanswered so that the platform delivers again; the third gets the placeholder."""
        if _delivery_number(message, opened, seen) < _LAST_DELIVERY:
            hold_s = channel.account.reply_deadline_s * _HOLD_FACTOR
            await asyncio.sleep(max(0.0, started + hold_s - time.monotonic()))
            return CLOSE
        question = texts.quote(message.text) or message.raw_type
        return self._passive(channel, Part("text", {}, texts.PULL_PLACEHOLDER.format(question=question)), message, opened)

    def _pulled(self, connection: Connection, channel: Channel, key: str, where: str) -> Part | None:
        """What this 继续 was given, with the count of what still waits."""
        part = self._outbox.pulled_again(connection, key)
        if part is None:
            return None
        waiting = self._outbox.parked_count(connection, where)
        return (offer_more(channel, part) or part) if waiting else part

    def _passive(self, channel: Channel, part: Part, message: InboundMessage, opened: Opened) -> CallbackReply:
        if not part.payload:
            part = Part(part.kind, {"msgtype": "text", "text": {"content": part.text}}, part.text)
        body, content_type = channel.seal(part, message, opened)
        return CallbackReply(status=200, body=body, content_type=content_type)


def _acknowledge(channel: Channel) -> CallbackReply:
    return CallbackReply(status=200, body=channel.ack())


def _delivery_number(message: InboundMessage, opened: Opened, seen: Seen) -> int:
    """Which try of the platform this is, at least: by our count, and by the platform's own two clocks readings
    (every try carries a new timestamp, 5 s apart, while CreateTime stays)."""
    by_clock = 1 + (opened.timestamp_s - message.sent_at_ms // 1000 + 1) // 5 if opened.timestamp_s else 1
    return max(seen.deliveries, min(by_clock, _LAST_DELIVERY))


def _state_of(connection: Connection, seq: int) -> Any:
    return connection.execute(select(_ROW.c.status, _ROW.c.answer_group).where(_ROW.c.seq == seq)).one()


def _ahead(connection: Connection, conversation: str, seq: int) -> int | None:
    """How many messages wait before this one; None for one that joined the turn of a message before it."""
    mine = connection.execute(select(_ROW.c.status, _ROW.c.joined_seq).where(_ROW.c.seq == seq)).one_or_none()
    if mine is not None and mine.joined_seq is not None:
        return None
    if mine is None or mine.status != "received":
        return 0
    before = (
        select(func.count())
        .select_from(_ROW)
        .where(_ROW.c.conversation_id == conversation, _ROW.c.status.in_(OPEN), _ROW.c.seq < seq)
        .where(_ROW.c.lane.in_(("turn", "single")))
    )
    return int(connection.execute(before).scalar_one())
