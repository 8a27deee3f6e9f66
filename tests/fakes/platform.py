"""A small platform on loopback for client tests: scripted answers, a record of every request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request, bytes], Awaitable[web.StreamResponse] | web.StreamResponse | dict[str, Any]]


@dataclass
class Platform:
    """``answers`` maps a path to a handler or to a list of JSON answers used one after the other (the last one stays)."""

    answers: dict[str, Handler | list[dict[str, Any]]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    base: str = ""

    def calls(self, path: str) -> list[tuple[str, dict[str, str], bytes]]:
        """The requests a path got so far."""
        return [call for call in self.requests if call[0] == path]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Record and answer one request."""
        body = await request.read()
        self.requests.append((request.path, dict(request.query), body))
        answer = self.answers.get(request.path)
        if answer is None:
            return web.json_response({"errcode": 404, "errmsg": "no such path"})
        if isinstance(answer, list):
            data = answer.pop(0) if len(answer) > 1 else answer[0]
            return web.json_response(data)
        made = answer(request, body)
        if isinstance(made, dict):
            return web.json_response(made)
        return made if isinstance(made, web.StreamResponse) else await made


@asynccontextmanager
async def serve(platform: Platform) -> AsyncIterator[Platform]:
    """The platform listening on a loopback port."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{tail:.*}", platform.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.2, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    platform.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield platform
    finally:
        await runner.cleanup()
