"""The benchmarks' load: every request is accounted for, whatever the server does with its connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scripts.bench.load import send_all

REQUEST = b"GET / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("rate", [None, 2000.0])
async def test_a_server_that_hangs_up_loses_the_load_nothing(rate: float | None) -> None:
    """Each third request is answered by hanging up: it counts as closed, and the load goes on over a new connection."""
    seen = 0
    serving: list[asyncio.Task[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        task = asyncio.current_task()
        serving.extend([task] if task is not None else [])
        while await reader.readline():
            await reader.readline()
            seen += 1
            if seen % 3 == 0:
                break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    result = await send_all([REQUEST] * 60, [port], connections=4, rate=rate, limit_s=10)
    server.close()
    await asyncio.gather(*serving)
    assert dict(result.answers) == {"200 ok": 40, "closed": 20}
    assert len(result.latencies_ms) == seen == 60
