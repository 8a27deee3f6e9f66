"""What the case tests share: the demo's people, small questions to a running stack, and pushes through the API."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from config.clock import Clock
from config.database import open_database
from config.schema import MpAccount, Settings, WecomAccount
from gateway import keys
from gateway.app import serve
from tests.fakes.model_server import ModelServer
from tests.stack import Stack, free_ports, running_stack

MEMBER = ("wecom-main", "zhangsan")
OTHER_MEMBER = ("wecom-main", "lisi")
VERIFIED = ("mp-main", "oDemoMainFollower00000000001")
UNVERIFIED = ("mp-sub", "oDemoSubFollower000000000002")
LABEL = "\n\n（内容由 AI 生成）"
SEND = {"wecom-main": "message/send", "mp-main": "message/custom/send", "mp-sub": "message/custom/send"}
Account = WecomAccount | MpAccount


def with_accounts(settings: Settings, change: Callable[[Account], Account | list[Account]]) -> Settings:
    """The settings with every account changed, dropped (an empty list) or joined by others."""
    tenants = []
    for tenant in settings.tenants:
        accounts: list[Account] = []
        for account in tenant.accounts:
            made = change(account)
            accounts += made if isinstance(made, list) else [made]
        tenants.append(tenant.model_copy(update={"accounts": tuple(accounts)}))
    return settings.model_copy(update={"tenants": tuple(tenants)})


@asynccontextmanager
async def changed_stack(
    folder: Path, redis_url: str, change: Callable[[Settings], Settings], **options: Any
) -> AsyncIterator[Stack]:
    """A running stack with other settings."""
    async with running_stack(folder, redis_url, change=change, **options) as running:
        yield running


@asynccontextmanager
async def second_gateway(stack: Stack) -> AsyncIterator[int]:
    """Another gateway on the same database and Redis, as a second process has it; its callback port."""
    http, admin = free_ports(2)
    listen = {"http": stack.settings.http.model_copy(update={"port": http})}
    listen |= {"admin": stack.settings.admin.model_copy(update={"port": admin})}
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(stack.settings.model_copy(update=listen), stop))

    async def ready() -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            async with stack.http.get(f"http://127.0.0.1:{admin}/readyz") as response:
                return response.status == 200
        return False

    try:
        await stack.until(ready, 60)
        yield http
    finally:
        stop.set()
        await serving


def passives(said: dict[str, Any]) -> list[str]:
    """The passive answers of an exchange, in order."""
    return [delivery["passive"] for delivery in said["deliveries"] if delivery["passive"]]


def prompts(model: ModelServer) -> list[str]:
    """The newest message of each request the model got."""
    return [str(request["messages"][-1]["content"]) for request in model.requests]


async def sends(stack: Stack, account: str, part: str = "") -> list[dict[str, Any]]:
    """Send calls of the account whose body contains ``part``."""
    return [call for call in await stack.calls(account, SEND[account]) if part in call["raw"]]


async def outgoing(stack: Stack, where: str = "1") -> list[dict[str, Any]]:
    """Outbox rows, oldest first."""
    return await stack.rows(f"SELECT * FROM outbox_message WHERE {where} ORDER BY seq")  # noqa: S608 -- a test's own words


def words(row: dict[str, Any]) -> str:
    """What an outbox row says."""
    return str(json.loads(row["payload"])["text"])


async def inbound(stack: Stack) -> list[dict[str, Any]]:
    """Inbound rows, oldest first."""
    return await stack.rows("SELECT * FROM inbound ORDER BY seq")


async def push(stack: Stack, account: str, to: list[str], text: str, key: str, **fields: Any) -> dict[str, Any]:
    """One push through the API; its answer (202). ``fields`` are further fields of the request."""
    status, answer = await try_push(stack, account, to, text, key, **fields)
    assert status == 202, answer
    return answer


async def try_push(stack: Stack, account: str, to: list[str], text: str, key: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    """One push through the API; status and answer."""
    body = {
        "account": account,
        "to": {"users": to},
        "message": {"kind": "text", "text": text},
        "idempotency_key": key,
        **fields,
    }
    url = f"http://127.0.0.1:{stack.settings.admin.port}/api/v1/push"
    async with stack.http.post(url, json=body, headers=await _authorized(stack)) as response:
        return response.status, await response.json()


async def push_state(stack: Stack, push_id: str) -> dict[str, Any]:
    """What became of a push."""
    url = f"http://127.0.0.1:{stack.settings.admin.port}/api/v1/push/{push_id}"
    async with stack.http.get(url, headers=await _authorized(stack)) as response:
        assert response.status == 200, await response.text()
        found: dict[str, Any] = await response.json()
        return found


async def _authorized(stack: Stack) -> dict[str, str]:
    kept = stack.settings.data_dir / "cases_key"
    if not kept.exists():
        tenant, now = stack.settings.tenants[0].id, Clock(stack.settings.test_clock).now_ms()
        database = open_database(stack.settings.sqlalchemy_url)
        try:
            key, _ = await database.write(
                lambda c: keys.create(c, tenant_id=tenant, name="cases", scopes=["push"], accounts=None, now_ms=now)
            )
        finally:
            await database.close()
        kept.write_text(key)
    return {"Authorization": f"Bearer {kept.read_text()}"}
