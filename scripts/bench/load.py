"""Sends ready-made requests over kept-alive connections and measures the answers; as light as Python allows."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Result:
    """What came back: seconds it took, latencies in ms (from the moment a request was due), answers by status and body."""

    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies_ms) / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """A latency percentile in ms, 0 when there is none."""
        ordered = sorted(self.latencies_ms)
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else 0.0


class _Connection(asyncio.Protocol):
    """One kept-alive connection with at most one request under way."""

    def __init__(self, run: _Run, port: int) -> None:
        self._run, self.port = run, port
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._due = 0.0
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport if isinstance(transport, asyncio.Transport) else None

    def send(self, request: bytes, due: float) -> None:
        self.busy, self._due = True, due
        if self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _content_length(head)
        if len(rest) < length:
            return
        self._buffer, self.busy = rest[length:], False
        self._run.answered(self, f"{head[9:12].decode()} {rest[: min(length, 16)].decode('utf-8', 'replace')}", self._due)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self.busy:
            self.busy = False
            self._run.unanswered(self._due)
        self._run.lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Run:
    """The state of one load: who is free, what is next."""

    def __init__(self, requests: Sequence[bytes], rate: float | None) -> None:
        self.requests, self.rate = requests, rate
        self.result = Result()
        self.next = 0
        self.free: list[_Connection] = []
        self.connections: list[_Connection] = []
        self.done = asyncio.Event()
        self.begun = 0.0
        self.closing = False
        self._again: set[asyncio.Task[None]] = set()

    def answered(self, connection: _Connection, answer: str, due: float) -> None:
        self.free.append(connection)
        self._ended(answer, due)

    def unanswered(self, due: float) -> None:
        """The server hung up on a request."""
        self._ended("closed", due)

    def _ended(self, answer: str, due: float) -> None:
        self.result.latencies_ms.append((time.perf_counter() - due) * 1000)
        self.result.answers[answer] += 1
        if self.rate is None:
            self.send_due()
        if len(self.result.latencies_ms) >= len(self.requests):
            self.done.set()

    def lost(self, connection: _Connection) -> None:
        self.free = [other for other in self.free if other is not connection]
        if not self.closing:
            task = asyncio.get_running_loop().create_task(self._connect_again(connection.port))
            self._again.add(task)
            task.add_done_callback(self._again.discard)

    async def _connect_again(self, port: int) -> None:
        while not self.closing:
            try:
                await self.connect(port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            if self.rate is None:
                self.send_due()
            return

    def send_due(self) -> None:
        now = time.perf_counter()
        while self.free and self.next < len(self.requests):
            due = now if self.rate is None else self.begun + self.next / self.rate
            if due > now:
                return
            self.free.pop().send(self.requests[self.next], due)
            self.next += 1

    async def close(self) -> None:
        """Hang up everywhere."""
        self.closing = True
        for task in self._again:
            task.cancel()
        await asyncio.gather(*self._again, return_exceptions=True)
        for connection in self.connections:
            connection.close()

    async def connect(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: _Connection(self, port), "127.0.0.1", port)
        self.connections.append(connection)
        self.free.append(connection)


async def send_all(
    requests: Sequence[bytes], ports: Sequence[int], *, connections: int = 64, rate: float | None = None, limit_s: float = 120.0
) -> Result:
    """Send every request once; ``rate`` (per second) makes it an open loop, else each connection sends when it is free.
    Stops after ``limit_s`` whatever is left."""
    run = _Run(requests, rate)
    for number in range(connections):
        await run.connect(ports[number % len(ports)])
    run.begun = time.perf_counter()
    try:
        async with asyncio.timeout(limit_s):
            run.send_due()
            while rate is not None and run.next < len(requests):
                await asyncio.sleep(0.001)
                run.send_due()
            await run.done.wait()
    except TimeoutError:
        run.result.answers["not answered in time"] = len(requests) - len(run.result.latencies_ms)
    run.result.seconds = time.perf_counter() - run.begun
    await run.close()
    return run.result


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(b"content-length:")
    if at < 0:
        return 0
    return int(lowered[at + 15 : lowered.find(b"\r", at) if lowered.find(b"\r", at) > 0 else len(lowered)])
