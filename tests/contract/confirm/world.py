"""What the confirmation tests are written with: a real database and outbox, tools that count their effects, two people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from agent.intents import read_decision
from agent.protocol import Capability
from config.clock import FixedClock
from config.database import Database
from config.ports import Draft
from config.schema import Listen, Person, Settings, Tenant, WecomAccount
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from memory.keys import conversation_id
from tools.assembly import ToolSet, open_tools
from tools.base import Tool, ToolContext, ToolResult
from tools.context import Place
from tools.decided import Actor, Answer, Prompt
from tools.proposals import ACTIONS
from tools.registry import CallOutcome

WHERE = conversation_id("acme", "wecom-main", "single", "zhangsan")
PUSH = Capability(can_push=True, can_card=False, can_menu=False)
CARD = Capability(can_push=True, can_card=True, can_menu=False)


def deploy_tool(world: World, **changes: Any) -> Tool:
    """An operation that counts how often it really ran."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        world.ran.append((context.call_key, dict(arguments)))
        return ToolResult(f"已部署 {arguments['host']}")

    values: dict[str, Any] = {
        "name": "deploy",
        "title": "部署",
        "description": "部署一台机器",
        "parameters": {
            "type": "object",
            "properties": {
                "host": {"type": "string"},
                "count": {"type": "integer"},
                "at": {"type": "string", "format": "date-time"},
            },
            "required": ["host"],
        },
        "run": run,
        "tool_class": "operation",
        "labels": {"host": "主机", "count": "台数", "at": "时间"},
        **changes,
    }
    return Tool(**values)


@dataclass
class World:
    """One deployment in one process; ``again`` makes a second process on the same database."""

    database: Database
    outbox: SqlOutbox
    clock: FixedClock
    account: WecomAccount
    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    roles: dict[str, tuple[Person, ...]] = field(default_factory=dict)
    tools: ToolSet = field(init=False)
    extra: list[Tool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.extra = self.extra or [deploy_tool(self), deploy_tool(self, name="wipe", title="清空", risk="high")]
        self.tools = self.open()

    def open(self, **changes: Any) -> ToolSet:
        """The tools of one more process."""
        tenant = Tenant(id="acme", accounts=(self.account,), roles=self.roles)
        settings = Settings(tenants=(tenant,), http=Listen(public_url="https://bot.example.com"), **changes)
        return open_tools(settings, self.clock, self.database, self.outbox, lambda _: PUSH, extra=self.extra)

    def context(
        self, capability: Capability = PUSH, user: str = "zhangsan", seq: int | None = None, fence: int | None = None
    ) -> ToolContext:
        """A turn of this person in the conversation."""
        place = Place("acme", "wecom-main", WHERE, "s1", user, "wecom_userid")
        return self.tools.contexts.of(place, capability=capability, inbound_seq=seq, turn_fence=fence)

    def actor(self, user: str = "zhangsan", key: str = "m1", **changes: Any) -> Actor:
        """This person, answering now."""
        now = self.clock.now_ms()
        values: dict[str, Any] = {
            "tenant_id": "acme",
            "account_id": "wecom-main",
            "conversation_id": WHERE,
            "session_id": "s1",
            "user_id": user,
            "id_type": "wecom_userid",
            "message_key": key,
            "said_at_ms": now // 1000 * 1000,
            "received_at_ms": now,
        }
        return Actor(**{**values, **changes})

    async def propose(
        self, tool: str = "deploy", *, deliver: bool = True, context: ToolContext | None = None, **arguments: Any
    ) -> Prompt:
        """A turn that parks this call: the row and the prompt's message in one transaction; the prompt then arrives."""
        context = context or self.context()
        outcome = await self.tools.registry.call(context, tool, arguments or {"host": "web-01"})
        if outcome.prompt is None:
            raise AssertionError(outcome.summary)
        await self.store(outcome)
        if deliver:
            await self.deliver(outcome.prompt)
        return outcome.prompt

    async def store(self, outcome: CallOutcome | Answer) -> None:
        """Commit what a turn (or the fast lane) returned."""
        prompt = outcome.prompt

        def write(connection: Any) -> None:
            for change in outcome.writes if isinstance(outcome, CallOutcome) else outcome.publish:
                change(connection)
            if prompt is not None:
                self.outbox.put(connection, self.draft(prompt.text, key=f"p:{prompt.action_id}", action_id=prompt.action_id))

        await self.database.write(write)

    async def deliver(self, prompt: Prompt) -> None:
        """The prompt reached the person now; a second later they answer."""
        await self.sent(ROWS.c.action_id == prompt.action_id)

    async def sent(self, where: Any) -> None:
        """These rows went out now."""
        values = {"status": "sent", "via": "push", "sent_at_ms": self.clock.now_ms()}
        await self.database.write(lambda c: c.execute(ROWS.update().where(where).values(**values)))
        self.clock.advance(2)

    async def say(self, text: str = "随便说说") -> None:
        """The assistant says something else, and it arrives."""
        key = f"say:{self.clock.now_ms()}"
        await self.database.write(lambda c: self.outbox.put(c, self.draft(text, key=key)))
        await self.sent(ROWS.c.idempotency_key == f"{key}:0")

    def draft(self, text: str, *, key: str, action_id: str | None = None) -> Draft:
        """A message to zhangsan."""
        return Draft(
            idempotency_key=key,
            tenant_id="acme",
            account_id="wecom-main",
            conversation_id=WHERE,
            user_id="zhangsan",
            session_id="s1",
            cause="inbound",
            cause_id="1",
            text=text,
            action_id=action_id,
        )

    async def hear(
        self, text: str, user: str = "zhangsan", key: str | None = None, tools: ToolSet | None = None, **actor: Any
    ) -> Answer:
        """The person types this; nothing is executed yet."""
        decision = read_decision(text)
        if decision is None:
            return Answer()
        self.clock.advance(1)
        who = self.actor(user, key or f"k:{text}:{self.clock.now_ms()}", **actor)
        return await (tools or self.tools).confirm.decide(who, decision)

    async def answer_now(self, text: str) -> str:
        """``answer`` on a clock that moves by itself."""
        decision = read_decision(text)
        if decision is None:
            return ""
        found = await self.tools.confirm.decide(self.actor(), decision)
        group = None if found.execute is None else await self.tools.executor.execute(found.execute)
        return found.text if group is None else "\n".join(await self.texts(group))

    async def answer(self, text: str, user: str = "zhangsan", tools: ToolSet | None = None, **actor: Any) -> str:
        """The person types this and is answered; a confirmed action is executed, and its outcome is the answer."""
        found = await self.hear(text, user, tools=tools, **actor)
        if found.execute is None:
            return found.text + (f"\n{found.prompt.text}" if found.prompt is not None else "")
        group = await (tools or self.tools).executor.execute(found.execute)
        return "\n".join(await self.texts(group)) if group is not None else ""

    async def texts(self, group: str) -> list[str]:
        """What a group of the outbox says."""
        query = select(ROWS.c.payload).where(ROWS.c.group_id == group).order_by(ROWS.c.part)
        return [row.payload["text"] for row in await self.database.read(lambda c: c.execute(query).all())]

    async def row(self, action_id: str) -> Any:
        """One pending action as stored."""
        return await self.database.read(lambda c: c.execute(select(ACTIONS).where(ACTIONS.c.id == action_id)).one())

    async def states(self) -> list[str]:
        """Every action's status, oldest first."""
        query = select(ACTIONS.c.status).order_by(ACTIONS.c.created_at_ms, ACTIONS.c.id)
        return [row.status for row in await self.database.read(lambda c: c.execute(query).all())]
