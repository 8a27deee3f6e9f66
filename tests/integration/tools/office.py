"""A deployment with a directory of three, for the tests of the builtin tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from agent.protocol import Capability
from config.clock import FixedClock
from config.schema import (
    Limits,
    Listen,
    Person,
    Settings,
    Tenant,
    ToolSettings,
)
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from memory.keys import conversation_id
from tests.fakes.channel import FakeChannel, mp_account, wecom_account
from tools.assembly import ToolSet, open_tools
from tools.base import ToolContext
from tools.context import Place
from tools.ports import Member, NoPlatform
from tools.registry import CallOutcome

PUBLIC_URL = "https://bot.example.com"
PUSH = Capability(can_push=True, can_card=False, can_menu=False)
PULL = Capability(can_push=False, can_card=False, can_menu=False)
WHERE = conversation_id("acme", "wecom-main", "single", "zhangsan")


class FewColleagues(NoPlatform):
    """A directory with two 张三."""

    people = (Member("zhangsan", "张三", "研发"), Member("zhangsan2", "张三", "市场"), Member("lisi", "李四"))

    async def member(self, account_id: str, user_id: str) -> Member | None:
        """By exact id."""
        return next((one for one in self.people if one.user_id == user_id), None)

    async def members_named(self, account_id: str, name: str) -> Sequence[Member]:
        """By exact name."""
        return [one for one in self.people if one.name == name]


class Office:
    """One deployment with settings of its own."""

    def __init__(
        self, folder: Path, database: Any, tools: ToolSettings, public_url: str | None = "https://bot.example.com"
    ) -> None:
        tenant = Tenant(
            id="acme",
            accounts=(wecom_account(), mp_account()),
            roles={"server_access": (Person(account="wecom-main", user="zhangsan"),)},
            tools=tools,
        )
        self.settings = Settings(data_dir=folder, tenants=(tenant,), http=Listen(public_url=public_url))
        self.database, self.clock = database, FixedClock()
        channels: dict[str, Any] = {
            "wecom-main": FakeChannel(limit=2000),
            "mp-main": FakeChannel(account=mp_account(), limit=2000),
        }
        self.outbox = SqlOutbox(channels, self.clock, Limits())
        self.tools: ToolSet = open_tools(self.settings, self.clock, database, self.outbox, lambda _: PUSH, FewColleagues())

    def context(self, user: str = "zhangsan", capability: Capability = PUSH, *, customer: bool = False) -> ToolContext:
        """This person in their own chat."""
        account = "mp-main" if customer else "wecom-main"
        place = Place(
            "acme",
            account,
            conversation_id("acme", account, "single", user),
            "s1",
            user,
            "open_id" if customer else "wecom_userid",
        )
        return self.tools.contexts.of(place, capability=capability)

    async def call(self, name: str, context: ToolContext | None = None, **arguments: Any) -> CallOutcome:
        """One call as a model makes it."""
        context = replace(context or self.context(), call_key="")
        return await self.tools.registry.call(context, name, arguments)

    async def do(self, name: str, **arguments: Any) -> str:
        """Propose, confirm, execute; what came of it."""
        outcome = await self.call(name, **arguments)
        if outcome.prompt is None:
            return outcome.summary
        await self.publish(outcome)
        return await self.agree(outcome.prompt.action_id)

    async def publish(self, outcome: CallOutcome) -> None:
        """What a turn's commit does; a second later the person answers."""
        await self.database.write(lambda c: [write(c) for write in outcome.writes])
        self.clock.advance(1)

    async def agree(self, action_id: str) -> str:
        """The person confirms; what came of it."""
        return await self.tools.executor.decide_here(action_id, "zhangsan", agreed=True)

    async def sent(self) -> list[dict[str, Any]]:
        """Every outbox row."""
        return [
            dict(row) for row in await self.database.read(lambda c: c.execute(select(ROWS).order_by(ROWS.c.seq)).mappings().all())
        ]
