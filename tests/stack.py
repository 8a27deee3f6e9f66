"""A whole gateway in this test's event loop against the real simulator over real HTTP: settings in, conversations out.

Time is scaled: ``scale`` 0.25 makes the platform's 5 s 1.25 s and the reply deadline 1.08 s; a "model that takes 8 s"
then takes 2 s (``stack.s(8)``), so a test that speaks in a person's seconds runs in a quarter of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from config.demo import simulator_accounts
from config.schema import Settings
from config.settings import demo_settings
from gateway.app import serve
from gateway.migrate import upgrade
from scripts.simulator.accounts import load_accounts
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World
from tests.fakes.model_server import ModelServer, model_server

TOKEN = "start-token"
_READY_S = 60.0


@dataclass
class Stack:
    """One running gateway and its platforms, spoken to through the simulator's control API."""

    settings: Settings
    base: str
    http: aiohttp.ClientSession
    world: World
    scale: float
    model: ModelServer
    numbers: list[int] = field(default_factory=lambda: [0])

    def s(self, seconds: float) -> float:
        """A person's seconds in this test's time."""
        return seconds * self.scale

    async def post(self, path: str, /, **body: Any) -> Any:
        """A call of the simulator's control API."""
        async with self.http.post(f"{self.base}/_sim/{path}", json=body) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def get(self, path: str, /, **query: Any) -> Any:
        """A question to the simulator's control API."""
        async with self.http.get(f"{self.base}/_sim/{path}", params=query) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def say(self, account: str, user: str, text: str = "", **fields: Any) -> dict[str, Any]:
        """A person writes; returns once the callback exchange, retries included, is over."""
        body = {"account": account, "user": user, **({"text": text} if text else {}), **fields}
        said: dict[str, Any] = await self.post("say", **body)
        return said

    async def ask(self, account: str, user: str, text: str) -> str:
        """The passive answer to a message, or the empty string."""
        said = await self.say(account, user, text)
        return next((d["passive"] for d in said["deliveries"] if d["passive"]), "")

    async def inbox(self, account: str, user: str, after: int = 0) -> list[dict[str, Any]]:
        """What the person has seen, in order."""
        found: Any = await self.get("inbox", account=account, user=user, after=after)
        return list(found["messages"] if isinstance(found, dict) else found)

    async def texts(self, account: str, user: str) -> list[str]:
        """The texts the person has seen, in order."""
        return [item["text"] for item in await self.inbox(account, user)]

    async def seen(self, account: str, user: str, part: str, seconds: float = 20.0) -> dict[str, Any]:
        """Wait until the person has seen a text that contains ``part``."""
        found: list[dict[str, Any]] = []

        async def there() -> bool:
            found[:] = [item for item in await self.inbox(account, user) if part in (item["text"] or "")]
            return bool(found)

        await self.until(there, seconds)
        return found[0]

    async def calls(self, account: str, path: str) -> list[dict[str, Any]]:
        """API calls the platform received from this account."""
        found: Any = await self.get("calls", account=account, path=path)
        return list(found["calls"] if isinstance(found, dict) else found)

    async def advance(self, seconds: float) -> None:
        """Move the virtual clock of platform and gateway."""
        await self.post("clock", advance_s=seconds)

    async def until(self, check: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
        """Wait until ``check`` holds; fails the test when it does not in time."""
        end = time.monotonic() + seconds
        while not await check():
            if time.monotonic() > end:
                pytest.fail("what was waited for did not happen in time")
            await asyncio.sleep(0.03)

    async def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of the product's database (SQLite), read directly."""
        import sqlite3

        def read() -> list[dict[str, Any]]:
            with contextlib.closing(sqlite3.connect(self.settings.data_dir / "yizhan.db")) as connection:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(query)]

        return await asyncio.to_thread(read)


def free_ports(count: int) -> list[int]:
    """Loopback ports nobody listens on now, below those the system hands out for outgoing connections (from 32768): one
    of these is not taken between this look and the listening."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            if port not in ports and probe.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    return ports


@contextlib.asynccontextmanager
async def running_stack(
    data_dir: Path,
    redis_url: str,
    *,
    scale: float = 0.25,
    offline: bool = False,
    change: Callable[[Settings], Settings] | None = None,
) -> AsyncIterator[Stack]:
    """Simulator, model server and gateway, up and ready; everything ends with the block."""
    http_port, admin_port = free_ports(2)
    clock = data_dir / "clock"
    clock.write_text("0")
    accounts = load_accounts(None, f"http://127.0.0.1:{http_port}")
    world = World(accounts, Timekeeper(clock), TOKEN, None, callback_timeout_s=5.0 * scale)
    headers = {"X-Sim-Token": TOKEN}
    async with serving(world, 0) as base, aiohttp.ClientSession(headers=headers) as http, model_server() as model:
        settings = demo_settings(
            data_dir,
            int(base.rsplit(":", 1)[1]),
            http_port,
            admin_port,
            redis_url=redis_url,
            test_clock=clock,
            models=[] if offline else [{"name": "scripted", "base_url": model.url, "model": "scripted", "local": True}],
        )
        settings = _scaled(settings, scale)
        settings = change(settings) if change else settings
        await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
        _same_secrets(world, data_dir, http_port)
        stop = asyncio.Event()
        serving_task = asyncio.create_task(serve(settings, stop))
        stack = Stack(settings, base, http, world, scale, model)
        try:
            await _ready(http, admin_port, serving_task)
            await stack.until(lambda: _probed(stack))
            await stack.until(lambda: _warm(stack))
            yield stack
        finally:
            stop.set()
            await serving_task


def _scaled(settings: Settings, scale: float) -> Settings:
    tenants = [
        tenant.model_copy(
            update={"accounts": tuple(a.model_copy(update={"reply_deadline_s": 4.3 * scale}) for a in tenant.accounts)}
        )
        for tenant in settings.tenants
    ]
    return settings.model_copy(update={"tenants": tuple(tenants)})


def _same_secrets(world: World, data_dir: Path, http_port: int) -> None:
    """Give the simulator the secrets of this data folder."""
    import json

    fresh = load_accounts(json.dumps(simulator_accounts("", data_dir)), f"http://127.0.0.1:{http_port}")
    for key, account in fresh.items():
        world.accounts[key] = account


async def _warm(stack: Stack) -> bool:
    """The gateway loads its model client in the background; a timed answer should not pay for that."""
    return not any("warm" in getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())


async def _probed(stack: Stack) -> bool:
    rows = await stack.rows("SELECT account_id FROM account_state WHERE capability != 'unknown'")
    return {row["account_id"] for row in rows} >= {a.id for t in stack.settings.tenants for a in t.accounts if a.platform == "mp"}


async def _ready(http: aiohttp.ClientSession, admin_port: int, task: asyncio.Task[None]) -> None:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end:
        if task.done():
            task.result()
        with contextlib.suppress(aiohttp.ClientError):
            async with http.get(f"http://127.0.0.1:{admin_port}/readyz") as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.03)
    pytest.fail("the gateway was not ready in time")
