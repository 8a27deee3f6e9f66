"""The fast lane: fixed replies, events, decisions and commands that need no claim and never wait behind a turn."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from sqlalchemy import Connection, select, update

from agent import fastlane
from agent.commands import fast_command, ordered_command
from agent.fastlane import FastAnswer
from agent.long_calls import receipt
from agent.protocol import Conversation, InboundMessage, JobRequest, Reply
from agent.services import AgentServices
from config.columns import table_of
from config.errors import YizhanError
from config.logging import get_logger, log
from gateway import texts, wire
from gateway.answers import Stored, store_answer, store_job
from gateway.capabilities import Capabilities
from gateway.channel import Channel
from gateway.events import fixed_reply, welcome
from gateway.lanes import Lane
from gateway.models import Inbound
from gateway.outbox import SqlOutbox
from gateway.turns import TurnRunner
from gateway.waiters import Waiters
from memory.keys import conversation_id
from tools.confirm import Executor

_ROW = table_of(Inbound)
_logger = get_logger(__name__)
PULLED = "pulled:"
"""An inbound row's answer_group that names the outbox row it was given on 继续 instead of a group of its own."""


class AnsweredElsewhere(YizhanError):
    """Another process took this message for stranded and answered it first; nothing of ours is written."""

    code = "answered_elsewhere"


class FastLane:
    """Answers one message without a claim, or hands it to the turns when it turns out to be ordinary talk."""

    def __init__(
        self,
        services: AgentServices,
        outbox: SqlOutbox,
        capabilities: Capabilities,
        waiters: Waiters,
        runner: TurnRunner,
        executor: Executor,
    ) -> None:
        self._services = services
        self._outbox = outbox
        self._capabilities = capabilities
        self._waiters = waiters
        self._runner = runner
        self._executor = executor
        self._running: set[asyncio.Task[None]] = set()

    def start(self, channel: Channel, message: InboundMessage, seq: int, session_id: str) -> None:
        """Answer in the background; the waiting handler hears of it through the waiters."""
        task = asyncio.create_task(self.attempt(channel, message, seq, session_id))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self, grace_s: float) -> None:
        """Let what runs finish for ``grace_s``; the rest is found again by its rows."""
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def attempt(self, channel: Channel, message: InboundMessage, seq: int, session_id: str) -> None:
        """``answer`` with its failures logged: the message stays open then, and the reaper rings for it again."""
        try:
            await self.answer(channel, message, seq, session_id)
        except Exception as error:  # noqa: BLE001 -- the boundary of one fast answer
            code = error.code if isinstance(error, YizhanError) else type(error).__name__
            log(_logger, "fast.failed", seq=seq, code=code)

    async def answer(self, channel: Channel, message: InboundMessage, seq: int, session_id: str) -> None:
        """Decide, commit, announce; a confirmed action then runs under its own lease. Raises AnsweredElsewhere."""
        where = _where(message, seq, session_id)
        words = _words_of(message)
        command = fast_command(words, channel.account.bot_name)
        if command is not None and command.name == "pull" and await self._pull(where, seq):
            return
        found = await self._decide(channel, message, where)
        if found is None:
            await self._hand_over(words, seq, "single" if message.event is not None else "turn")
            return
        if found.long and found.action_id is not None:
            await self._queue_action(channel, message, seq, where, found)
            return
        stored = await self._commit(channel, message, seq, where, found)
        if found.action_id is None:
            await self._runner.announce((seq,), stored)
            return
        if stored.group is not None:
            await self._runner.announce((seq,), stored)
        await self._execute(found.action_id, seq, announce=stored.group is None)

    async def _queue_action(
        self, channel: Channel, message: InboundMessage, seq: int, where: Conversation, found: FastAnswer
    ) -> None:
        """A confirmed action known to be long: a receipt now, the work in a worker."""
        request = JobRequest("action", {"action_id": found.action_id})
        told = Reply(receipt(self._capabilities.of(message.account_id)))
        queued = replace(found, replies=(*found.replies, told), action_id=None)
        stored = await self._commit(channel, message, seq, where, queued, job=request)
        await self._runner.announce((seq,), stored)

    async def _pull(self, where: Conversation, seq: int) -> bool:
        """继续: hand over the next parked answer, in the transaction that makes it this message's answer."""

        def hand_over(connection: Connection) -> str | None:
            _still_open(connection, seq)
            part = self._outbox.pull(connection, where.conversation_id)
            if part is None:
                return None
            values = {"status": "done", "answer_group": PULLED + part.key, "finished_at_ms": self._services.clock.now_ms()}
            connection.execute(update(_ROW).where(_ROW.c.seq == seq).values(**values))
            return PULLED + part.key

        group = await self._services.database.write(hand_over)
        if group is not None:
            self._waiters.resolve((seq,), group)
            await self._runner.ring_outbox(group)
        return group is not None

    async def _decide(self, channel: Channel, message: InboundMessage, where: Conversation) -> FastAnswer | None:
        reply = fixed_reply(message, channel.account)
        if reply is not None:
            return FastAnswer(replies=(reply,))
        capability = self._capabilities.of(message.account_id)
        if message.event is None:
            found = await fastlane.answer(self._services, message, where, capability)
            return found or await self._while_it_runs(channel, message, where)
        if message.event.name in ("card_click", "card_menu"):
            return await fastlane.card(self._services, message, where, capability)
        if message.event.name == "menu_click":
            words = _words_of(message)
            if ordered_command(words) is not None:
                return None
            return await fastlane.command_only(self._services, words, where, capability) or FastAnswer(
                replies=(Reply(texts.MENU_UNKNOWN),)
            )
        return FastAnswer(replies=())

    async def _while_it_runs(self, channel: Channel, message: InboundMessage, where: Conversation) -> FastAnswer | None:
        """1 while the answer is still on its way to be pulled asks for it; nothing waits for a choice then (OA5-15)."""
        command = fast_command(message, channel.account.bot_name)
        if command is None or command.name != "pull" or self._capabilities.of(message.account_id).can_push:
            return None
        if not await self._services.ops.work(where):
            return None
        return FastAnswer((await self._services.ops.pull(where)).replies)

    async def _commit(
        self,
        channel: Channel,
        message: InboundMessage,
        seq: int,
        where: Conversation,
        found: FastAnswer,
        *,
        job: JobRequest | None = None,
    ) -> Stored:
        now = self._services.clock.now_ms()
        status = "running" if found.action_id is not None and not found.replies else "done"

        def write(connection: Connection) -> Stored:
            _still_open(connection, seq)
            for change in found.writes:
                change(connection)
            greeting = welcome(connection, message, channel.account, now) if message.event is not None else None
            stored = store_answer(
                connection,
                self._outbox,
                where,
                message,
                (seq,),
                (greeting,) if greeting is not None else found.replies,
                capability=self._capabilities.of(message.account_id),
                reserve_ms=self._waiters.reserve_ms((seq,)),
                status=status,
                now_ms=now,
            )
            return stored if job is None else replace(stored, job_id=store_job(connection, where, job, seq, now))

        return await self._services.database.write(write)

    async def _execute(self, action_id: str, seq: int, *, announce: bool) -> None:
        """Run a confirmed action; its outcome is this message's answer unless something was said already."""
        started = time.monotonic()
        group = await self._executor.execute(
            action_id, reserve_ms=(lambda: self._waiters.reserve_ms((seq,))) if announce else (lambda: 0)
        )
        log(_logger, "action.executed", seq=seq, action_id=action_id, ms=round((time.monotonic() - started) * 1000))
        if announce:
            done = update(_ROW).where(_ROW.c.seq == seq)
            finished = self._services.clock.now_ms()
            await self._services.database.write(
                lambda c: c.execute(done.values(status="done", answer_group=group, finished_at_ms=finished))
            )
            await self._runner.announce((seq,), Stored(group, reserved=group is not None))
        elif group is not None:
            await self._services.bell.ring("outbox", group)

    async def _hand_over(self, words: InboundMessage, seq: int, lane: Lane) -> None:
        """Ordinary talk after all (好的 with nothing open), or 新会话 from a menu: it waits its turn like any other."""
        values = {"lane": lane, "body": wire.to_json(words)}

        def give(connection: Connection) -> None:
            _still_open(connection, seq)
            connection.execute(update(_ROW).where(_ROW.c.seq == seq).values(**values))

        await self._services.database.write(give)
        self._runner.start(_where(words, seq, "").conversation_id)


def _still_open(connection: Connection, seq: int) -> None:
    """Lock the message that is about to be answered. A fast answer has no claim, and one that takes long looks stranded to
    the reaper, so the first of two that answer it wins. Raises AnsweredElsewhere."""
    mine = select(_ROW.c.seq).where(_ROW.c.seq == seq, _ROW.c.lane == "fast", _ROW.c.status == "received").with_for_update()
    if connection.execute(mine).first() is None:
        raise AnsweredElsewhere


def _words_of(message: InboundMessage) -> InboundMessage:
    """A click on a menu key says the key's words, though nobody typed them; anything else says what it says."""
    if message.event is None or message.event.name != "menu_click":
        return message
    return replace(message, kind="text", text=message.event.key or "", event=None)


def _where(message: InboundMessage, seq: int, session_id: str) -> Conversation:
    """The conversation without a claim: fence -1 never matches one."""
    return Conversation(
        tenant_id=message.tenant_id,
        account_id=message.account_id,
        conversation_id=conversation_id(message.tenant_id, message.account_id, message.chat_type, message.peer_id),
        session_id=session_id,
        user_id=message.user_id,
        id_type=message.id_type,
        chat_type=message.chat_type,
        fence=-1,
        inbound_seq=seq,
    )
