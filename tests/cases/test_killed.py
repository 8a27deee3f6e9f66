"""Areas oa-5s and session, across kill -9: the gateway as a process of its own, the platforms and the model in the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from config.demo import demo_tenant, simulator_accounts
from scripts.bench.processes import Running, answers, start, yizhan
from scripts.simulator.accounts import load_accounts
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World
from tests.fakes.model_server import Answer, ModelServer, model_server, say
from tests.stack import TOKEN, free_ports

PATIENCE_S = 90.0
PEOPLE = tuple(f"member{number}" for number in range(10))


@dataclass
class Town:
    """Processes of the product around the simulator and the model of this test."""

    folder: Path
    config: Path
    admin_port: int
    base: str
    http: aiohttp.ClientSession
    model: ModelServer

    def start(self, command: str) -> Running:
        """Start one process."""
        return start(f"{command}-{time.monotonic_ns()}", yizhan(command, "--config", str(self.config)), self.folder)

    async def ready(self) -> None:
        """Wait for the gateway."""
        url = f"http://127.0.0.1:{self.admin_port}/readyz"

        async def looks() -> bool:
            return await asyncio.to_thread(answers, url)

        await until(looks)

    async def post(self, path: str, **body: Any) -> Any:
        """One request to the control API."""
        async with self.http.post(f"{self.base}/_sim/{path}", json=body) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def texts(self, user: str) -> list[str]:
        """What a member has seen."""
        query = {"account": "wecom-main", "user": user}
        async with self.http.get(f"{self.base}/_sim/inbox", params=query) as response:
            return [item["text"] for item in await response.json()]

    async def acknowledged(self) -> int:
        """How many callbacks were answered in time, at whatever delivery."""
        async with self.http.get(f"{self.base}/_sim/exchanges", params={"brief": "1"}) as response:
            exchanges = await response.json()
        return len([one for one in exchanges if any(attempt["outcome"] == "ok" for attempt in one["attempts"])])

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """One statement on the product's database."""
        with contextlib.closing(sqlite3.connect(self.folder / "data" / "yizhan.db", timeout=10)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until ``check`` holds."""
    end = time.monotonic() + PATIENCE_S
    while not await check():
        if time.monotonic() > end:
            pytest.fail("what was waited for did not happen in time")
        await asyncio.sleep(0.1)


@pytest.fixture
async def town(tmp_path: Path, valkey: str) -> AsyncIterator[Town]:
    """Simulator, model and settings; processes are the test's own."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    clock = data / "clock"
    clock.write_text("0")
    http_port, admin_port = free_ports(2)
    accounts = load_accounts(json.dumps(simulator_accounts("", data)), f"http://127.0.0.1:{http_port}")
    world = World(accounts, Timekeeper(clock), TOKEN, None, callback_timeout_s=5.0)
    async with (
        serving(world, 0) as base,
        aiohttp.ClientSession(headers={"X-Sim-Token": TOKEN}) as http,
        model_server() as model,
    ):
        tenant = demo_tenant(base, data)
        for account in tenant["accounts"]:
            account["reply_deadline_s"] = 1.0
        settings = {
            "data_dir": str(data),
            "redis_url": valkey,
            "http": {"port": http_port},
            "admin": {"port": admin_port},
            "test_clock": str(clock),
            "models": [{"name": "scripted", "base_url": model.url, "model": "scripted", "local": True, "timeout_s": 300}],
            "limits": {"turn_s": 300},
            "tenants": [tenant],
        }
        config = tmp_path / "yizhan.yaml"
        config.write_text(json.dumps(settings))  # JSON is YAML
        yield Town(tmp_path, config, admin_port, base, http, model)


async def test_ses_16_oa5_22_ses_19_every_acknowledged_message_survives_a_kill(town: Town) -> None:
    """SES-16, OA5-22, SES-19: ten people write, kill -9 after three answers; started again: ten answers, none twice."""
    alive = True
    answered = 0

    def rule(request: Mapping[str, Any]) -> Answer:
        nonlocal answered
        text = str(request["messages"][-1]["content"])
        if alive and answered >= 3:
            return Answer("", wrong="hang")
        answered += 1
        return say(f"答{text}")

    town.model.rule = rule
    gateway, worker = town.start("serve"), town.start("worker")
    try:
        await town.ready()
        for user in PEOPLE:
            await town.post("say", account="wecom-main", user=user, text=f"问题{user}", wait=False)

        async def three_done() -> bool:
            stored = town.sql("SELECT count(*) FROM inbound")[0][0]
            seen = [text for user in PEOPLE for text in await town.texts(user) if text.startswith("答")]
            return (stored, len(seen), await town.acknowledged()) == (10, 3, 10)

        await until(three_done)
        gateway.kill()
        alive = False
        for table in ("conversation", "lease", "outbox_message"):
            town.sql(f"UPDATE {table} SET lease_until_ms = 0 WHERE lease_until_ms IS NOT NULL")  # noqa: S608 -- half a minute later
        await town.post("clock", advance_s=20)
        gateway = town.start("serve")

        async def all_done() -> bool:
            return all([any(text.startswith("答") for text in await town.texts(user)) for user in PEOPLE])

        await until(all_done)
        assert [sum(text == f"答问题{user}" for text in await town.texts(user)) for user in PEOPLE] == [1] * 10
        assert town.sql("SELECT DISTINCT status FROM inbound") == [("done",)]
    finally:
        gateway.kill()
        worker.kill()
