"""What workers count. They have no address to be asked at, so their counters stand in Redis and every gateway tells them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from redis.asyncio import Redis

from config.logging import on_event
from gateway.event_counts import COUNTS

KEY = "yz:counts:workers"
"""A hash, ``name`` or ``name|label`` → count, for as long as this Redis lives. Starting anew at 0 is what counters may do."""

_EVERY_S = 5.0
_LIMIT_S = 1.0
_BY_ACTION = {count.action: count for count in COUNTS}
_BY_NAME = {count.name: count for count in COUNTS}


class WorkerCounts:
    """One worker's part: collects, and adds to the hash every five seconds. A killed worker loses what it had not added; what
    Redis took without answering in time is added twice."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._lock = threading.Lock()
        self._pending: Counter[str] = Counter()
        on_event(self._event)

    async def run(self, stop: asyncio.Event) -> None:
        """Add until ``stop``; call ``flush`` once more when the last work is done."""
        while not stop.is_set():
            await self.flush()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _EVERY_S)

    async def flush(self) -> None:
        """Add what was counted since; while Redis is away it is kept."""
        with self._lock:
            adding, self._pending = self._pending, Counter()
        if not adding:
            return
        try:
            async with asyncio.timeout(_LIMIT_S), self._redis.pipeline(transaction=True) as pipe:
                for name, count in adding.items():
                    pipe.hincrby(KEY, name, count)
                await pipe.execute()
        except Exception:  # noqa: BLE001 -- whatever Redis did: counting is no reason to end; tried again
            with self._lock:
                self._pending.update(adding)

    def _event(self, action: str, fields: Mapping[str, Any]) -> None:
        count = _BY_ACTION.get(action)
        if count is not None:
            with self._lock:
                self._pending["|".join((count.name, *count.labels(fields)))] += 1


class WorkersCollector(Collector):
    """The hash as metrics ``yizhan_workers_...``, of all workers together."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}

    async def read(self, redis: Redis) -> None:
        """Fetch the hash; what was read before stays when Redis does not answer."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LIMIT_S):
                found = cast(Mapping[bytes, bytes], await redis.hgetall(KEY))
                self._read = {name.decode(): int(count) for name, count in found.items()}

    def collect(self) -> Iterator[CounterMetricFamily]:
        """For prometheus_client."""
        families: dict[str, CounterMetricFamily] = {}
        for key, value in sorted(self._read.items()):
            name, *labels = key.split("|", 1)
            count = _BY_NAME.get(name)
            if count is None or len(labels) != (count.label is not None):
                continue  # written by another version
            family = families.get(name)
            if family is None:
                told = f"{count.text} (all workers; every gateway tells the same)"
                family = CounterMetricFamily(f"yizhan_workers_{name}", told, labels=[count.label] if count.label else [])
                families[name] = family
            family.add_metric(labels, value)
        yield from families.values()
