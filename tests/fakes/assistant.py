"""Builds an assistant for tests: real SQLite, real router, a fixed clock, named fakes for the gateway and the tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection
from sqlmodel import SQLModel

import tools.models  # noqa: F401
from agent.llm.router import Router
from agent.ports import WorkView
from agent.protocol import Capability, Conversation, Deadline, InboundMessage, Reply, TurnResult
from agent.services import AgentServices, FetchMedia
from agent.turn import run_turn
from config.clock import Clock, FixedClock
from config.columns import table_of
from config.database import Database, SqliteDatabase
from config.ports import Bell, Outbox
from config.schema import Settings
from memory.keys import conversation_id
from memory.models import Conversation as ConversationRow
from tools.base import Tool
from tools.confirm import Confirmations
from tools.context import Contexts
from tools.proposals import Proposals
from tools.registry import Registry

PUSH = Capability(can_push=True, can_card=True, can_menu=False)
PULL = Capability(can_push=False, can_card=False, can_menu=False)
NOW_MS = 1_780_000_000_000


class FakeStop:
    """A stop signal that is set by hand."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()

    def set(self) -> None:
        self._event.set()


@dataclass
class FakeOps:
    """The gateway's operations: answers from fields, counts what was asked."""

    pulled: TurnResult = field(default_factory=lambda: TurnResult((Reply("没有等着取的内容。"),), "command"))
    running: int = 0
    views: list[WorkView] = field(default_factory=list)
    source: InboundMessage | None = None

    async def pull(self, where: Conversation) -> TurnResult:
        return self.pulled

    async def stop(self, where: Conversation) -> int:
        return self.running

    async def work(self, where: Conversation) -> list[WorkView]:
        return self.views

    async def retry_source(self, where: Conversation) -> InboundMessage | None:
        return self.source


@dataclass
class Assistant:
    """One person talking to an assistant; ``say`` runs a turn and commits its writes."""

    services: AgentServices
    database: Database
    ops: FakeOps
    account_id: str = "wecom-main"
    platform: str = "wecom"
    user_id: str = "zhangsan"
    id_type: str = "wecom_userid"
    capability: Capability = PUSH
    sequence: int = 0

    def message(self, text: str, **changes: Any) -> InboundMessage:
        self.sequence += 1
        base = InboundMessage(
            platform=cast(Any, self.platform),
            account_id=self.account_id,
            tenant_id="default",
            chat_type="single",
            peer_id=self.user_id.lower(),
            user_id=self.user_id,
            id_type=cast(Any, self.id_type),
            kind="text",
            text=text,
            raw_type="text",
            message_id=str(self.sequence),
            idempotency_key=f"k{self.sequence}",
            sent_at_ms=self.services.clock.now_ms(),
            received_at_ms=self.services.clock.now_ms(),
        )
        return replace(base, **changes)

    async def where(self) -> Conversation:
        key = conversation_id("default", self.account_id, "single", self.user_id.lower())
        table = table_of(ConversationRow)

        def load(connection: Connection) -> str:
            row = connection.execute(table.select().where(table.c.id == key)).one_or_none()
            if row is not None:
                return str(row.session_id)
            connection.execute(
                table.insert().values(
                    id=key,
                    tenant_id="default",
                    account_id=self.account_id,
                    chat_type="single",
                    peer_id=self.user_id.lower(),
                    user_id=self.user_id,
                    id_type=self.id_type,
                    session_id=f"s0{self.user_id}",
                    fence=1,
                    created_at_ms=NOW_MS,
                )
            )
            return f"s0{self.user_id}"

        session = await self.database.write(load)
        return Conversation(
            "default",
            self.account_id,
            key,
            session,
            self.user_id,
            cast(Any, self.id_type),
            "single",
            1,
            inbound_seq=self.sequence,
        )

    async def say(self, text: str, *, stop: FakeStop | None = None, deadline_s: float = 60.0, **changes: Any) -> TurnResult:
        where = await self.where()
        deadline = Deadline(self.services.clock.monotonic() + deadline_s)
        message = self.message(text, **changes)
        result = await run_turn(self.services, message, where, deadline, self.capability, stop or FakeStop())
        await self.commit(result)
        return result

    async def commit(self, result: TurnResult) -> None:
        def write(connection: Connection) -> None:
            for one in result.writes:
                one(connection)

        await self.database.write(write)

    async def close(self) -> None:
        """Close connections and files."""
        await self.services.router.close()
        await self.database.close()

    async def rows(self, model: type[SQLModel]) -> list[Any]:
        table = table_of(model)
        return await self.database.read(lambda connection: list(connection.execute(table.select()).all()))


WECOM = {
    "id": "wecom-main",
    "platform": "wecom",
    "corp_id": "ww0123456789abcdef",
    "agent_id": 1000002,
    "secret": "s" * 16,
    "callback_token": "token",
    "encoding_aes_key": "a" * 43,
}
MP = {
    "id": "mp-main",
    "platform": "mp",
    "app_id": "wx0123456789abcdef",
    "app_secret": "s" * 16,
    "callback_token": "token",
    "encoding_aes_key": "a" * 43,
}


def settings_for(folder: Path, tenant: Mapping[str, Any] | None = None, **extra: Any) -> Settings:
    """Settings with one WeCom and one Official Account."""
    base = {"id": "default", "operators": [{"account": "wecom-main", "user": "lisi"}], "accounts": [WECOM, MP], **(tenant or {})}
    return Settings.model_validate({"data_dir": folder, "tenants": [base], **extra})


async def make_assistant(
    folder: Path,
    *,
    settings: Settings | None = None,
    clock: Clock | None = None,
    tools: Sequence[Tool] = (),
    fetch_media: FetchMedia | None = None,
    **person: Any,
) -> Assistant:
    """An assistant on a fresh SQLite file, with the real registry and confirmations over ``tools``."""
    settings = settings or settings_for(folder)
    database = SqliteDatabase(folder / "agent.db")
    await database.write(SQLModel.metadata.create_all)
    clock = clock or FixedClock(NOW_MS)
    ops = FakeOps()
    outbox = cast(Outbox, None)
    proposals = Proposals(database, clock, settings.limits)
    registry = Registry(tools, proposals)
    contexts = Contexts(settings, clock, database, outbox, capability_of=lambda account_id: PUSH)
    services = AgentServices(
        settings=settings,
        clock=clock,
        database=database,
        outbox=outbox,
        bell=cast(Bell, None),
        ops=ops,
        router=Router(settings, clock),
        registry=registry,
        confirm=Confirmations(database, outbox, clock, registry, proposals, contexts),
        fetch_media=fetch_media,
    )
    return Assistant(services, database, ops, **person)
