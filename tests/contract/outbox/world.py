"""What the outbox tests are written with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Connection, select

from config.clock import FixedClock
from config.columns import table_of
from config.database import Database
from config.ports import Draft
from config.schema import Limits, Person, Tenant
from gateway.account_state import Ability, record_capability
from gateway.alerts import Alerts
from gateway.delivery import Delivery
from gateway.models import Inbound
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from gateway.throttle import Throttle
from memory.keys import conversation_id
from memory.models import Conversation
from tests.fakes.channel import FakeChannel

CONVERSATION = table_of(Conversation)
INBOUND = table_of(Inbound)
TENANT = Tenant(
    id="acme",
    operators=(Person(account="wecom-main", user="admin"),),
    alert_webhook=SecretStr("https://robot.invalid/key"),
)


@dataclass
class World:
    """A database, an outbox on it, fake channels and a clock that only moves when told."""

    database: Database
    channels: dict[str, Any]
    clock: FixedClock
    outbox: SqlOutbox
    limits: Limits

    def draft(self, key: str, text: str = "你好", **changes: Any) -> Draft:
        """A message to zhangsan on the WeCom app."""
        account = changes.pop("account_id", "wecom-main")
        user = changes.pop("user_id", "zhangsan")
        values: dict[str, Any] = {"cause": "job", "cause_id": "j1", "session_id": None, **changes}
        return Draft(
            idempotency_key=key,
            tenant_id="acme",
            account_id=account,
            conversation_id=conversation_id("acme", account, "single", user),
            user_id=user,
            text=text,
            **values,
        )

    def delivery(self) -> Delivery:
        """A serving process's delivery on this database; pacing is its own."""
        alerts = Alerts(self.outbox, self.channels, (TENANT,), self.clock)
        throttle = Throttle(None, self.clock)
        return Delivery(self.database, self.channels, self.outbox, self.clock, None, throttle, alerts)

    @property
    def wecom(self) -> FakeChannel:
        """The WeCom app."""
        channel: FakeChannel = self.channels["wecom-main"]
        return channel

    @property
    def mp(self) -> FakeChannel:
        """The Official Account."""
        channel: FakeChannel = self.channels["mp-main"]
        return channel

    async def put(self, key: str, text: str = "你好", **changes: Any) -> str:
        """Store a draft; the group id."""
        return await self.database.write(lambda c: self.outbox.put(c, self.draft(key, text, **changes)))

    async def rows(self, group: str | None = None) -> list[dict[str, Any]]:
        """Every row (of a group), in order."""
        query = select(ROWS).order_by(ROWS.c.seq)
        if group is not None:
            query = query.where(ROWS.c.group_id == group)
        return await self.database.read(lambda c: [dict(row) for row in c.execute(query).mappings()])

    async def states(self, group: str | None = None) -> list[str]:
        """The status of every row (of a group), in order."""
        return [row["status"] for row in await self.rows(group)]

    async def set_rows(self, **values: Any) -> None:
        """Change every row behind the product's back."""
        await self.database.write(lambda c: c.execute(ROWS.update().values(**values)))

    async def set_conversation(self, **values: Any) -> None:
        """What is known about o1, a follower of the Official Account."""
        key = conversation_id("acme", "mp-main", "single", "o1")
        known = {"id": key, "tenant_id": "acme", "account_id": "mp-main", "chat_type": "single", "peer_id": "o1", "user_id": "o1"}
        row = {**known, "id_type": "open_id", "fence": 0, "created_at_ms": 1, "last_act_kind": "message", **values}

        def store(connection: Connection) -> None:
            connection.execute(CONVERSATION.delete().where(CONVERSATION.c.id == key))
            connection.execute(CONVERSATION.insert().values(**row))

        await self.database.write(store)

    async def ask(self, seq: int) -> None:
        """An inbound question of zhangsan on the WeCom app."""
        row = {
            "seq": seq,
            "key": f"m{seq}",
            "tenant_id": "acme",
            "account_id": "wecom-main",
            "conversation_id": conversation_id("acme", "wecom-main", "single", "zhangsan"),
            "user_id": "zhangsan",
            "kind": "text",
            "lane": "turn",
            "status": "done",
            "attempts": 0,
            "deaths": 0,
            "stop_requested": False,
            "sent_at_ms": self.clock.now_ms(),
            "received_at_ms": self.clock.now_ms(),
        }
        await self.database.write(lambda c: c.execute(INBOUND.insert().values(**row)))

    async def can_push(self, ability: Ability, account_id: str = "mp-main") -> None:
        """What a probe found about the account."""
        now = self.clock.now_ms()
        await self.database.write(lambda c: record_capability(c, account_id, "acme", ability, now))
