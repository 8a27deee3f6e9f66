"""``yizhan up --demo`` as a process for benchmarks: ports, simulator control, pids of its children."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from config.demo import demo_tenant
from scripts.bench.processes import Running, free_port, start, yizhan

CHILDREN = ("serve", "worker", "valkey")


class DemoUp:
    """The whole product with its simulator, in ``folder``. Use as an async context manager."""

    def __init__(self, folder: Path, *, more: Mapping[str, Any] | None = None, account: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.http_port, self.admin_port, self.sim_port = free_port(), free_port(), free_port()
        self.base = f"http://127.0.0.1:{self.sim_port}"
        self.ready_s = 0.0
        self._config = folder / "yizhan.yaml"
        tenant = demo_tenant(self.base, self.data_dir)
        tenant["accounts"] = [{**raw, **(account or {})} for raw in tenant["accounts"]]
        settings = {"data_dir": str(self.data_dir), "demo": True, "tenants": [tenant], **(more or {})}
        self._config.write_text(json.dumps(settings))
        self._running: Running | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> DemoUp:
        ports = ("--port", self.http_port, "--admin-port", self.admin_port, "--sim-port", self.sim_port)
        command = yizhan("up", "--demo", "--config", str(self._config), *(str(word) for word in ports))
        begun = time.monotonic()
        self._running = start("up", command, self.folder)
        while "ready" not in self._running.tail():
            if self._running.process.poll() is not None or time.monotonic() - begun > 60:
                raise RuntimeError(f"yizhan up is not ready\n{self._running.tail()}")
            await asyncio.sleep(0.02)
        self.ready_s = time.monotonic() - begun
        token = (self.data_dir / "run" / "simulator.token").read_text().strip()
        self._session = aiohttp.ClientSession(cookies={"sim_token": token}, timeout=aiohttp.ClientTimeout(total=120))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._session is not None:
            await self._session.close()
        if self._running is not None:
            await asyncio.to_thread(self._running.stop, 20.0)

    @property
    def config(self) -> Path:
        """The settings file."""
        return self._config

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """A control request of the simulator."""
        async with self._opened.post(f"{self.base}/_sim/{path}", json=body) as response:
            return await response.json()

    async def get(self, path: str, **query: Any) -> Any:
        """A question to the simulator."""
        async with self._opened.get(f"{self.base}/_sim/{path}", params=query) as response:
            return await response.json()

    def pid(self, child: str) -> int | None:
        """The pid of a child now, None while it is being restarted."""
        try:
            return int((self.data_dir / "run" / f"{child}.pid").read_text())
        except (OSError, ValueError):
            return None

    def kill(self, child: str) -> bool:
        """kill -9 of one child of this very product; False while there is none."""
        pid = self.pid(child)
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    @property
    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("not started")
        return self._session
