"""A model server for benchmarks: OpenAI-compatible, streams back the tags of the newest message, with random delays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

TAG = re.compile(r"m\d{5}")
ANSWER = "【答】"


class EchoModel:
    """Answers ``【答】m00001 m00002`` after one of ``delays_s``, chosen with ``seed``."""

    def __init__(self, delays_s: Sequence[float], seed: int) -> None:
        self._delays_s = delays_s
        self._random = random.Random(seed)
        self.calls = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions, streamed."""
        body = await request.json()
        newest = next((m["content"] for m in reversed(body["messages"]) if m["role"] == "user"), "")
        self.calls += 1
        await asyncio.sleep(self._random.choice(self._delays_s))
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        with contextlib.suppress(ConnectionResetError):  # the asking process was killed
            await self._stream(request, answer, str(newest))
        return answer

    async def _stream(self, request: web.Request, answer: web.StreamResponse, newest: str) -> None:
        await answer.prepare(request)
        text = ANSWER + " ".join(TAG.findall(newest))
        for delta, finish in (({"role": "assistant", "content": text}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "echo", "choices": [choice]}
            await answer.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
        await answer.write(b"data: [DONE]\n\n")


@asynccontextmanager
async def echo_model(delays_s: Sequence[float], seed: int = 1) -> AsyncIterator[tuple[EchoModel, str]]:
    """The server on a loopback port: (model, base URL)."""
    model = EchoModel(delays_s, seed)
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", model.complete)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield model, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
