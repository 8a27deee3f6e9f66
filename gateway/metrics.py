"""Prometheus metrics: events are counted from the log's actions, states and workers' counts are read at scrape time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from sqlalchemy import Connection, func, select

from config.columns import table_of
from config.logging import on_event
from gateway.event_counts import COUNTS, Count
from gateway.health import read_soon
from gateway.models import Inbound, Job, OutboxMessage
from gateway.worker_counts import WorkersCollector

if TYPE_CHECKING:
    from gateway.services import Services

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_INBOUND, _JOB, _OUTBOX = table_of(Inbound), table_of(Job), table_of(OutboxMessage)
_OPEN_OUTBOX = ("passive_reserved", "pending", "sending", "parked", "unknown")
_JOB_STATES = ("queued", "running", "done", "failed", "dead", "cancelled")
_HOUR_MS = 3_600_000
_ACK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 6.5)


class Metrics:
    """One process's metrics. Labels hold names from closed sets, never an id (gateway.md §9)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="yizhan", registry=self.registry)
        make = self.registry
        self.callbacks = Counter("yizhan_callbacks", "Callbacks answered, by outcome", ["outcome"], registry=make)
        self.acknowledge = Histogram(
            "yizhan_acknowledge_seconds", "Callback in to answer out", buckets=_ACK_BUCKETS, registry=make
        )
        self._counters = {
            count.action: (Counter(f"yizhan_{count.name}", count.text, _names(count), registry=make), count) for count in COUNTS
        }
        self._workers = WorkersCollector()
        make.register(self._workers)
        gauge = self._gauge
        self._depth = gauge("yizhan_queue_depth", "Wake-ups waiting, by queue", "queue")
        self._open = gauge("yizhan_open", "Open rows, by table", "table")
        self._oldest = gauge("yizhan_oldest_open_seconds", "Age of the oldest open row, by table", "table")
        self._outbox = gauge("yizhan_outbox", "Outbox rows not settled, by state", "state")
        self._jobs = gauge("yizhan_jobs_last_hour", "Jobs queued within the hour, by state: workers run them, SQL tells", "state")
        self._up = gauge("yizhan_up", "1 when this part answers", "part")
        on_event(self._event)

    async def render(self, services: Services) -> bytes:
        """The exposition text; what SQL or Redis cannot tell now is left as it was, with ``yizhan_up`` at 0."""
        depths, _ = await asyncio.gather(services.bell.depths(), self._workers.read(services.bell.redis))
        self._up.labels("redis").set(1 if depths else 0)
        for queue, depth in depths.items():
            self._depth.labels(queue).set(depth)
        now = services.clock.now_ms()
        try:
            self._read_states(await read_soon(services.database, lambda c: _states(c, now)), now)
            self._up.labels("database").set(1)
        except Exception:  # noqa: BLE001 -- metrics must come out especially when the database is in trouble
            self._up.labels("database").set(0)
        return generate_latest(self.registry)

    def _read_states(self, states: Mapping[str, Any], now_ms: int) -> None:
        for table in ("inbound", "job"):
            count, oldest_ms = states[table]
            self._open.labels(table).set(count)
            self._oldest.labels(table).set(max(0.0, (now_ms - oldest_ms) / 1000) if oldest_ms else 0.0)
        for state in _JOB_STATES:
            self._jobs.labels(state).set(states["jobs"].get(state, 0))
        for state in _OPEN_OUTBOX:
            self._outbox.labels(state).set(states["outbox"].get(state, 0))

    def _event(self, action: str, fields: Mapping[str, Any]) -> None:
        found = self._counters.get(action)
        if found is not None:
            counter, count = found
            (counter.labels(*count.labels(fields)) if count.label else counter).inc()

    def _gauge(self, name: str, text: str, label: str) -> Gauge:
        return Gauge(name, text, [label], registry=self.registry)


def _names(count: Count) -> list[str]:
    return [count.label] if count.label else []


def _states(connection: Connection, now_ms: int) -> dict[str, Any]:
    def open_rows(table: Any, statuses: tuple[str, ...], moment: Any) -> tuple[int, int | None]:
        row = connection.execute(
            select(func.count(), func.min(moment)).select_from(table).where(table.c.status.in_(statuses))
        ).one()
        return int(row[0]), row[1]

    outbox = connection.execute(
        select(_OUTBOX.c.status, func.count()).where(_OUTBOX.c.status.in_(_OPEN_OUTBOX)).group_by(_OUTBOX.c.status)
    )
    jobs = connection.execute(
        select(_JOB.c.status, func.count())
        .where(_JOB.c.status.in_(_JOB_STATES), _JOB.c.created_at_ms > now_ms - _HOUR_MS)
        .group_by(_JOB.c.status)
    )
    return {
        "jobs": {row[0]: int(row[1]) for row in jobs},
        "inbound": open_rows(_INBOUND, ("received", "running"), _INBOUND.c.received_at_ms),
        "job": open_rows(_JOB, ("queued", "running"), _JOB.c.created_at_ms),
        "outbox": {row[0]: int(row[1]) for row in outbox},
    }
