"""What workers count, in Redis: added up over processes, kept while Redis is away, junk in Redis left out."""

from __future__ import annotations

import ast
import asyncio
import logging
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from config.logging import log
from gateway.event_counts import COUNTS
from gateway.redis_links import open_redis
from gateway.worker_counts import KEY, WorkerCounts, WorkersCollector

ROOT = Path(__file__).resolve().parents[2]
LOGGER = logging.getLogger("tests")


async def told(url: str) -> list[str]:
    """The metrics a gateway would tell, without comments."""
    redis, collector, registry = open_redis(url), WorkersCollector(), CollectorRegistry()
    registry.register(collector)
    await collector.read(redis)
    await redis.aclose()
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


async def test_workers_add_up_and_keep_what_redis_does_not_take(valkey: str) -> None:
    redis, away = open_redis(valkey), open_redis("unix:///nowhere/valkey.sock")
    one, two = WorkerCounts(redis), WorkerCounts(away)
    log(LOGGER, "token.refreshed", account="wecom-main")
    log(LOGGER, "turn.stored", outcome="answered")
    log(LOGGER, "nobody.counts.this")
    await one.flush()
    await two.flush()
    assert await told(valkey) == [
        "yizhan_workers_token_refreshes_total 1.0",
        'yizhan_workers_turns_total{outcome="answered"} 1.0',
    ]
    two._redis = redis  # it came back
    await asyncio.gather(one.flush(), two.flush())
    assert await told(valkey) == [
        "yizhan_workers_token_refreshes_total 2.0",
        'yizhan_workers_turns_total{outcome="answered"} 2.0',
    ]
    await redis.aclose()
    await away.aclose()


async def test_what_another_version_wrote_is_left_out(valkey: str) -> None:
    redis = open_redis(valkey)
    await redis.hset(KEY, mapping={"turns": 1, "turns|ok": 2, "once_counted|x": 3, "token_failures": 4, "token_failures|x": 5})
    assert await told(valkey) == ["yizhan_workers_token_failures_total 4.0", 'yizhan_workers_turns_total{outcome="ok"} 2.0']
    await redis.aclose()


async def test_redis_holding_something_else_fails_nothing(valkey: str) -> None:
    redis = open_redis(valkey)
    await redis.set(KEY, "a string")
    counts = WorkerCounts(redis)
    log(LOGGER, "redis.away")
    await counts.flush()
    assert await told(valkey) == []
    await redis.delete(KEY)
    await counts.flush()
    assert await told(valkey) == ["yizhan_workers_redis_away_total 1.0"]
    await redis.aclose()


def test_every_counted_action_is_logged_somewhere() -> None:
    """A counter of an event that nobody logs stays 0 for ever."""
    logged = {
        node.value
        for folder in ("agent", "gateway")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "event_counts.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {count.action for count in COUNTS} <= logged
