"""A message whose gateway died while Redis takes no wake-up is answered by a gateway, not left until Redis is well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import insert, select

from agent.protocol import InboundMessage
from config.columns import table_of
from config.settings import demo_settings
from gateway import wire
from gateway.app import build, close
from gateway.inbox import Arrival
from gateway.migrate import upgrade
from gateway.models import Inbound
from gateway.reaper import Reaper
from gateway.services import Services
from gateway.sessions import touch_conversation
from tests.integration.jobs.steps import outgoing, until

INBOUND = table_of(Inbound)


@pytest.fixture(params=["away", "out of memory"])
async def lonely(request: pytest.FixtureRequest, tmp_path: Path, valkey: str) -> AsyncIterator[Services]:
    """A gateway's services with a Redis that is away, or answers but refuses to store anything."""
    redis_url = f"unix://{tmp_path}/nobody.sock" if request.param == "away" else valkey
    settings = demo_settings(tmp_path, redis_url=redis_url)
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    built = await build(settings)
    if request.param == "out of memory":
        with Redis.from_url(valkey) as client:
            client.config_set("maxmemory", "1")
    yield built
    await close(built)
    with Redis.from_url(valkey) as client:
        client.config_set("maxmemory", "0")


def _left_behind(services: Services) -> InboundMessage:
    long_ago = services.clock.now_ms() - 60_000
    return InboundMessage(
        platform="wecom",
        account_id="wecom-main",
        tenant_id="default",
        chat_type="single",
        peer_id="zhangsan",
        user_id="zhangsan",
        id_type="wecom_userid",
        kind="text",
        text="今天要做什么",
        raw_type="text",
        message_id="1",
        idempotency_key="wecom-main:1",
        sent_at_ms=long_ago,
        received_at_ms=long_ago,
        typed=True,
    )


async def test_a_turn_left_behind_runs_in_the_gateway(lonely: Services) -> None:
    message = _left_behind(lonely)
    row: dict[str, Any] = {"key": "wecom-main:1", "tenant_id": "default", "account_id": "wecom-main", "user_id": "zhangsan"}
    row |= {"conversation_id": Arrival(message, "turn").conversation_id, "kind": "text", "lane": "turn", "status": "running"}
    row |= {"body": wire.to_json(message), "deliveries": 1, "attempts": 0, "deaths": 0, "stop_requested": False}
    row |= {"sent_at_ms": message.sent_at_ms, "received_at_ms": message.received_at_ms}

    def store(connection: Any) -> None:
        touch_conversation(connection, message, message.received_at_ms)
        connection.execute(insert(INBOUND).values(**row))

    await lonely.database.write(store)
    assert await Reaper(lonely).pass_once() == 1

    async def answered() -> bool:
        found = await lonely.database.read(lambda c: c.execute(select(INBOUND.c.status, INBOUND.c.deaths)).one())
        return tuple(found) == ("done", 1)

    await until(answered)
    (answer,) = await outgoing(lonely)
    assert (answer["user_id"], answer["final"]) == ("zhangsan", True)
