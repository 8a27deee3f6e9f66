"""A connection to Redis that died without a word: nobody closes it, nothing comes any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.queue import RedisBell


class Firewall:
    """Passes connections to Valkey's socket on, until it forgets those that are open: their bytes go nowhere."""

    def __init__(self, target: Path) -> None:
        self.url = ""
        self.asked = asyncio.Event()
        """Set once a client has asked several times whether anybody is there."""
        self._pings = 0
        self._target = target
        self._forgotten = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self._pumps: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Firewall]:
        """Listen on loopback."""
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
            await asyncio.gather(*self._pumps, *(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    def forget(self) -> None:
        """Connections that are open now are dead; new ones work."""
        self._forgotten.set()
        self._forgotten = asyncio.Event()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside_reader, inside_writer = await asyncio.open_unix_connection(self._target)
        self._writers += [writer, inside_writer]
        for source, sink in ((reader, inside_writer), (inside_reader, writer)):
            self._pumps.append(asyncio.create_task(self._pump(source, sink, self._forgotten)))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, forgotten: asyncio.Event) -> None:
        while data := await source.read(4096):
            self._pings += data.count(b"PING")
            if self._pings > 2:
                self.asked.set()
            if not forgotten.is_set():
                sink.write(data)


async def test_a_subscription_that_went_silent_is_made_anew(
    valkey: str, valkey_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rings of other processes are heard again although the old connection never ended; while all is well it stays."""
    monkeypatch.setattr("gateway.queue._QUIET_S", 0.4)
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def next_heard() -> str:
        async with asyncio.timeout(10):
            return await heard.get()

    async with Firewall(valkey_socket).open() as firewall:
        listening, ringing = RedisBell(firewall.url), RedisBell(valkey)
        following = asyncio.create_task(listening.follow("outbox", heard.put_nowait))
        assert await next_heard() == ""
        async with asyncio.timeout(10):
            await firewall.asked.wait()
        await ringing.ring("outbox", "one")
        assert await next_heard() == "one", "it asked, was answered, and stayed"
        firewall.forget()
        await ringing.ring("outbox", "lost")
        assert await next_heard() == "", "connected anew: look at everything"
        await ringing.ring("outbox", "two")
        assert await next_heard() == "two"
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await listening.close()
        await ringing.close()
