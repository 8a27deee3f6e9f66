"""The parts of one gateway, wired for tests: everything real but the platform's wire and what a turn says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import select

from agent.protocol import Capability, Conversation, Deadline, InboundMessage, Reply, TurnResult
from agent.services import AgentServices
from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.schema import Limits, Settings, Tenant
from gateway.account_state import record_capability
from gateway.capabilities import Capabilities
from gateway.channel import CallbackReply, Opened
from gateway.conversation_ops import ConversationOps
from gateway.dispatch import Dispatcher
from gateway.fast import FastLane
from gateway.inbox import Inbox
from gateway.models import Inbound, OutboxMessage
from gateway.outbox import SqlOutbox
from gateway.turns import TurnRunner
from gateway.waiters import Waiters
from tests.fakes.channel import FakeChannel, mp_account, wecom_account
from tools.assembly import ToolSet, open_tools
from tools.base import Tool

INBOUND = table_of(Inbound)
OUTBOX = table_of(OutboxMessage)
Script = Callable[[InboundMessage], Awaitable[TurnResult]]


class SilentBell:
    """Remembers rings; nobody listens."""

    def __init__(self) -> None:
        self.rings: list[tuple[str, str]] = []

    async def ring(self, queue: str, key: str) -> None:
        """Remember it."""
        self.rings.append((queue, key))


@dataclass
class ScriptedTurns:
    """Stands in for the assistant: answers what the test says, remembers what it was asked."""

    script: Script | None = None
    asked: list[InboundMessage] = field(default_factory=list)
    where: list[Conversation] = field(default_factory=list)
    running: int = 0
    most: int = 0

    async def __call__(
        self,
        services: AgentServices,
        message: InboundMessage,
        conversation: Conversation,
        deadline: Deadline,
        capability: Capability,
        stop: Any,
    ) -> TurnResult:
        """One scripted turn."""
        self.asked.append(message)
        self.where.append(conversation)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.script is None:
                return TurnResult((Reply(f"答:{message.text}"),))
            return await self.script(message)
        finally:
            self.running -= 1


@dataclass
class Road:
    """One gateway process."""

    database: Database
    clock: Clock
    outbox: SqlOutbox
    inbox: Inbox
    runner: TurnRunner
    fast: FastLane
    dispatcher: Dispatcher
    turns: ScriptedTurns
    channels: dict[str, FakeChannel]
    bell: SilentBell
    waiters: Waiters
    ops: ConversationOps
    tools: ToolSet
    numbers: int = 0

    def message(self, text: str, user: str = "zhangsan", account: str = "wecom-main", **changes: Any) -> InboundMessage:
        """A text of one person, with a fresh message id."""
        self.numbers += 1
        wecom = account.startswith("wecom")
        values: dict[str, Any] = {
            "platform": "wecom" if wecom else "mp",
            "account_id": account,
            "tenant_id": "acme",
            "chat_type": "single",
            "peer_id": user.lower(),
            "user_id": user,
            "id_type": "wecom_userid" if wecom else "open_id",
            "kind": "text",
            "text": text,
            "raw_type": "text",
            "message_id": str(self.numbers),
            "idempotency_key": f"{account}:{user}:{self.numbers}",
            "sent_at_ms": self.clock.now_ms() // 1000 * 1000,
            "received_at_ms": self.clock.now_ms(),
        }
        return InboundMessage(**{**values, **changes})

    async def deliver(self, message: InboundMessage, *, attempt: int = 1) -> CallbackReply:
        """One callback delivery, as the platform's ``attempt``-th try."""
        opened = Opened(b"", True, False, message.sent_at_ms // 1000 + 5 * (attempt - 1))
        return await self.dispatcher.handle(cast(Any, self.channels[message.account_id]), message, opened, time.monotonic())

    async def say(self, text: str, user: str = "zhangsan", account: str = "wecom-main") -> str:
        """A person's message; the body of the HTTP answer."""
        return (await self.deliver(self.message(text, user, account))).body.decode()

    async def inbound(self) -> list[Any]:
        """All inbound rows in order."""
        return await self.database.read(lambda c: c.execute(select(INBOUND).order_by(INBOUND.c.seq)).all())

    async def outgoing(self) -> list[Any]:
        """All outbox rows in order."""
        return await self.database.read(lambda c: c.execute(select(OUTBOX).order_by(OUTBOX.c.seq)).all())

    async def until(self, check: Callable[[], Awaitable[bool]], seconds: float = 8.0) -> None:
        """Wait until ``check`` holds; fails the test when it does not within ``seconds``."""
        end = time.monotonic() + seconds
        while not await check():
            if time.monotonic() > end:
                pytest.fail("what was waited for did not happen in time")
            await asyncio.sleep(0.02)


async def build_road(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    *,
    turns: ScriptedTurns | None = None,
    deadline_s: float = 1.2,
    limits: Limits | None = None,
    tools: Sequence[Tool] = (),
) -> Road:
    """Wire one gateway on the database; two of them on one database are two processes."""
    turns = turns or ScriptedTurns()
    monkeypatch.setattr("gateway.turns.run_turn", turns)
    limits = limits or Limits()
    accounts = [wecom_account(), mp_account("mp-main"), mp_account("mp-sub")]
    channels = {a.id: FakeChannel(account=a.model_copy(update={"reply_deadline_s": deadline_s})) for a in accounts}
    clock = Clock()
    await database.write(lambda c: record_capability(c, "mp-main", "acme", "push", 1))
    await database.write(lambda c: record_capability(c, "mp-sub", "acme", "pull", 1))
    outbox = SqlOutbox(cast(Any, channels), clock, limits)
    capabilities = Capabilities(database, cast(Any, channels), clock)
    await capabilities.refresh()
    waiters, bell = Waiters(), SilentBell()
    runner_box: list[TurnRunner] = []
    ops = ConversationOps(database, capabilities, clock, lambda conversation: runner_box[0].stop_local(conversation))
    settings = Settings(limits=limits, tenants=(Tenant(id="acme", accounts=tuple(accounts)),))
    toolset = open_tools(settings, clock, database, outbox, capabilities.of, extra=tools)
    parts = {"settings": settings, "clock": clock, "database": database, "outbox": outbox, "bell": bell, "ops": ops}
    services = cast(AgentServices, SimpleNamespace(**parts, confirm=toolset.confirm, registry=toolset.registry, platform=None))
    runner = TurnRunner(services, outbox, capabilities, waiters)
    runner_box.append(runner)
    fast = FastLane(services, outbox, capabilities, waiters, runner, toolset.executor)
    inbox = Inbox(database, outbox, clock, limits)
    dispatcher = Dispatcher(database, inbox, outbox, capabilities, waiters, runner, fast)
    return Road(database, clock, outbox, inbox, runner, fast, dispatcher, turns, channels, bell, waiters, ops, toolset)
