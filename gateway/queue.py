"""The bell: RQ wake-ups for workers and Redis messages for gateways. SQL is the truth; a lost ring only costs time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from config.ids import new_id
from config.logging import get_logger, log
from gateway.redis_links import open_blocking, open_listener, open_redis

if TYPE_CHECKING:
    from redis.asyncio.client import PubSub
    from rq import Queue

WORK_QUEUES = ("turn", "memory", "task", "knowledge")
"""Queues of the workers, most urgent first."""

ENTRY = "gateway.worker.run_entry"
"""The one function a wake-up may name (N-19)."""

CHANNEL = "yz:"
RESULT_TTL_S = 0
ALIVE_PREFIX = "yz:alive:worker:"
"""A Redis key per living worker process, gone within 30 s of its death."""

FAILURE_TTL_S = 3600
WAKE_TTL_S = 24 * 3600
_RING_S = 0.95
_TELL_EVERY_S = 10.0
_QUIET_S = 5.0
"""A subscription that heard nothing for so long asks whether anybody is there; nothing for as long again: the connection is
dead, even if no packet ever said so (a firewall that forgot it, a server that fell over)."""

_logger = get_logger(__name__)


class RedisBell:
    """Implements config.ports.Bell over RQ (work queues) and publish/subscribe (everything else)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.redis = open_redis(url)
        self._listeners: dict[str, list[Callable[[str], object]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bell")
        self._queues: dict[str, Queue] = {}
        self._told_at = 0.0
        self.last_ring_error: Exception | None = None
        """Why Redis did not take the last ring of a work queue: away, out of memory, slow; None when it did."""

    def listen(self, queue: str, callback: Callable[[str], object]) -> None:
        """Call ``callback(key)`` at every ring of ``queue`` in this process; it must be quick and not raise."""
        self._listeners.setdefault(queue, []).append(callback)

    async def ring(self, queue: str, key: str) -> None:
        """See config.ports.Bell. Work queues get an RQ job with ids only, other names a published message."""
        for callback in self._listeners.get(queue, ()):
            callback(key)
        try:
            async with asyncio.timeout(_RING_S):
                if queue in WORK_QUEUES:
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._enqueue, queue, key)
                    self.last_ring_error = None
                else:
                    await self.redis.publish(CHANNEL + queue, key)
        except Exception as error:  # noqa: BLE001 -- a ring never fails its caller; the reaper rings again
            if queue in WORK_QUEUES:
                self.last_ring_error = error
            self._tell_away(error)

    async def publish(self, channel: str, text: str) -> None:
        """Tell every process that subscribed; quiet when Redis is away."""
        try:
            async with asyncio.timeout(_RING_S):
                await self.redis.publish(CHANNEL + channel, text)
        except Exception as error:  # noqa: BLE001 -- as above
            self._tell_away(error)

    async def subscribe(self, prefix: str) -> AsyncIterator[tuple[str, str]]:
        """Every (channel, text) whose channel begins with ``prefix``, for ever; connects again after 0.5 s when Redis
        goes away or falls silent. After each (re)connect one ("", "") comes first: look at SQL, there may be more."""
        while True:
            client = open_listener(self._url)
            try:
                async with client.pubsub() as pubsub:
                    await pubsub.psubscribe(f"{CHANNEL}{prefix}*")
                    async for message in _messages(pubsub):
                        if message["type"] == "psubscribe":  # the server's word: only from here on nothing is missed
                            yield "", ""
                        elif message["type"] == "pmessage":
                            yield _text(message["channel"]).removeprefix(CHANNEL), _text(message["data"])
            except Exception as error:  # noqa: BLE001 -- whatever Redis or the network did, listening goes on
                self._tell_away(error)
            finally:
                await client.aclose()
            await asyncio.sleep(0.5)

    async def follow(self, queue: str, callback: Callable[[str], object]) -> None:
        """Call ``callback(key)`` for rings of other processes too, until cancelled; ``key`` "" means: look at everything."""
        async for _, key in self.subscribe(queue):
            callback(key)

    async def depths(self) -> dict[str, int]:
        """Waiting wake-ups by queue; empty when Redis is away."""
        try:
            async with asyncio.timeout(_RING_S):
                return {name: int(await self.redis.llen(f"rq:queue:{name}")) for name in WORK_QUEUES}
        except Exception as error:  # noqa: BLE001 -- as above
            self._tell_away(error)
            return {}

    async def is_up(self) -> bool:
        """Whether Redis answers within a second."""
        try:
            async with asyncio.timeout(_RING_S):
                return bool(await self.redis.ping())
        except Exception:  # noqa: BLE001 -- any failure is the answer "no"
            return False

    async def close(self) -> None:
        """Close the connections."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self.redis.aclose()

    def _enqueue(self, queue: str, key: str) -> None:
        target = self._queues.get(queue) or self._open_queue(queue)
        target.enqueue_call(
            ENTRY,
            args=(queue, key),
            job_id=new_id("w"),
            timeout=-1,
            ttl=WAKE_TTL_S,
            result_ttl=RESULT_TTL_S,
            failure_ttl=FAILURE_TTL_S,
            description=f"{queue} {key}",
        )

    def _open_queue(self, queue: str) -> Queue:
        from rq import Queue
        from rq.serializers import JSONSerializer

        opened = Queue(queue, connection=open_blocking(self._url), serializer=JSONSerializer)
        self._queues[queue] = opened
        return opened

    def _tell_away(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._told_at >= _TELL_EVERY_S:
            self._told_at = now
            log(_logger, "redis.away", logging.WARNING, reason=type(error).__name__)


async def _messages(pubsub: PubSub) -> AsyncIterator[dict[str, Any]]:
    """What the server says, as it comes. Raises TimeoutError when the server no longer answers."""
    asked = False
    while True:
        message = await pubsub.get_message(timeout=_QUIET_S)
        if message is None and asked:
            raise TimeoutError("the subscription is dead")
        asked = message is None
        if message is None:
            await pubsub.ping()
        else:
            yield message


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
