"""Delivery as it runs: killed processes, the bell over a real Valkey, latency, pacing shared by processes, a clean stop."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import SQLModel

from config.clock import Clock, FixedClock
from config.database import Database, open_database
from config.ports import Draft
from config.schema import Limits
from gateway.alerts import Alerts
from gateway.channel import Target
from gateway.delivery import Delivery
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from gateway.queue import RedisBell
from gateway.redis_links import open_redis
from gateway.throttle import MEMBER, Throttle
from memory.models import Conversation  # noqa: F401 -- its table
from tests.fakes.channel import FakeChannel
from tests.fakes.dying_sender import LoggedChannel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """An empty SQLite database."""
    opened = open_database(f"sqlite:///{tmp_path / 'yizhan.db'}")
    await opened.write(lambda connection: SQLModel.metadata.create_all(connection))
    yield opened
    await opened.close()


def draft(key: str, text: str, user: str = "zhangsan") -> Draft:
    """A final answer to somebody on the WeCom app."""
    return Draft(
        idempotency_key=key,
        tenant_id="acme",
        account_id="wecom-main",
        conversation_id=f"c-{user}",
        user_id=user,
        session_id=None,
        cause="inbound",
        cause_id="1",
        text=text,
        final=True,
    )


def delivery_of(database: Database, channels: dict[str, Any], clock: Clock, bell: RedisBell | None = None) -> Delivery:
    """A serving process's delivery."""
    outbox = SqlOutbox(channels, clock, Limits())
    alerts = Alerts(outbox, channels, (), clock)
    return Delivery(database, channels, outbox, clock, bell, Throttle(None, clock), alerts)


@pytest.mark.parametrize("point", ["after-claim", "before-send", "after-send"])
async def test_kill_mid_send(database: Database, tmp_path: Path, point: str) -> None:
    """N-05, SES-17: kill -9 at any point of sending; after the lease another process finishes. The platform, which
    recognizes equal requests, shows the answer exactly once; part 2 follows part 1."""
    clock = FixedClock()
    outbox = SqlOutbox({"wecom-main": FakeChannel()}, clock, Limits())
    await database.write(lambda c: outbox.put(c, draft("k1", "甲" * 200 + "乙" * 10)))
    log = tmp_path / "platform.log"
    command = [sys.executable, "-m", "tests.fakes.dying_sender", str(tmp_path / "yizhan.db"), str(log), point]
    ended = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert await states(database) == ["sending", "pending"]
    await database.write(lambda c: c.execute(ROWS.update().where(ROWS.c.status == "sending").values(lease_until_ms=1)))
    channel = LoggedChannel()
    channel.log = log
    heir = delivery_of(database, {"wecom-main": channel}, clock)
    await heir.pass_once()
    clock.advance(10)
    await heir.pass_once()
    assert await states(database) == ["sent", "sent"]
    requests = log.read_bytes().splitlines()
    shown = list(dict.fromkeys(requests))
    assert [json.loads(request)["text"][0] for request in shown] == ["甲", "乙"]
    assert all(json.loads(request)["check"] == 1 for request in requests)
    assert len(requests) == (3 if point == "after-send" else 2)


async def states(database: Database) -> list[str]:
    """The status of every row."""
    from sqlalchemy import select

    return await database.read(lambda c: [row[0] for row in c.execute(select(ROWS.c.status).order_by(ROWS.c.seq))])


async def test_a_ring_of_another_process_starts_the_request(database: Database, valkey: str) -> None:
    """Committed to request: the bell of another process wakes delivery over Valkey, in well under 100 ms (median)."""
    channel, clock = FakeChannel(), Clock()
    here, there = RedisBell(valkey), RedisBell(valkey)
    delivery = delivery_of(database, {"wecom-main": channel}, clock, here)
    outbox = SqlOutbox({"wecom-main": channel}, clock, Limits())
    stop = asyncio.Event()
    running = asyncio.create_task(delivery.run(stop))
    took = []
    try:
        async with asyncio.timeout(30):
            while (await here.redis.pubsub_numpat()) < 1:  # noqa: ASYNC110 -- Redis tells nobody of a new subscriber
                await asyncio.sleep(0.01)
            for number in range(15):
                channel.entered.clear()
                await database.write(lambda c, n=number: outbox.put(c, draft(f"k{n}", f"{n}", f"u{n}")))  # type: ignore[misc]
                started = time.perf_counter()
                await there.ring("outbox", "x")
                await channel.entered.wait()
                took.append(time.perf_counter() - started)
    finally:
        stop.set()
        await running
        await here.close()
        await there.close()
    assert sorted(took)[len(took) // 2] < 0.1
    assert sorted(channel.texts, key=int) == [str(number) for number in range(15)]


async def test_without_redis_the_poll_finds_it(database: Database) -> None:
    """A lost ring only costs time: the next poll sends."""
    channel, clock = FakeChannel(), Clock()
    delivery = delivery_of(database, {"wecom-main": channel}, clock)
    outbox = SqlOutbox({"wecom-main": channel}, clock, Limits())
    stop = asyncio.Event()
    running = asyncio.create_task(delivery.run(stop))
    await database.write(lambda c: outbox.put(c, draft("k1", "一")))
    async with asyncio.timeout(10):
        await channel.entered.wait()
    stop.set()
    await running
    assert channel.texts == ["一"]


async def test_stop_lets_a_running_attempt_end(database: Database) -> None:
    """SES-17: a stop between two parts finishes the one on the wire; the next process sends only the rest."""
    channel, clock = FakeChannel(), Clock()
    channel.hold = asyncio.Event()
    delivery = delivery_of(database, {"wecom-main": channel}, clock)
    outbox = SqlOutbox({"wecom-main": channel}, clock, Limits())
    await database.write(lambda c: outbox.put(c, draft("k1", "甲" * 200 + "乙")))
    stop = asyncio.Event()
    running = asyncio.create_task(delivery.run(stop))
    async with asyncio.timeout(10):
        await channel.entered.wait()
    stop.set()
    channel.hold.set()
    await running
    assert await states(database) == ["sent", "pending"]
    await delivery_of(database, {"wecom-main": channel}, clock).pass_once()
    assert [text[0] for text in channel.texts] == ["甲", "乙"]


async def test_processes_share_a_members_pace(valkey: str) -> None:
    """DEL-24: two processes together send one member 30 messages a minute; without Redis each keeps its own count."""
    clock, target = FixedClock(), Target(users=("ZhangSan",))
    links = [open_redis(valkey) for _ in range(2)]
    both = [Throttle(link, clock) for link in links]
    try:
        waits = [await both[number % 2].take("wecom-main", "wecom", target) for number in range(40)]
        assert waits.count(0) == MEMBER[0].count
        assert all(wait == 60_000 for wait in waits[30:])
        clock.advance(60)
        assert await both[0].take("wecom-main", "wecom", Target(users=("zhangsan",))) == 0
        assert await both[0].take_many("key:k1", 4000, 6000) == 0
        assert await both[1].take_many("key:k1", 4000, 6000) > 0
        assert await both[1].take_many("key:k1", 2000, 6000) == 0
    finally:
        for link in links:
            await link.aclose()
    alone = Throttle(open_redis("unix:///nowhere/at/all.sock"), clock)
    waits = [await alone.take("wecom-main", "wecom", target) for _ in range(31)]
    assert waits.count(0) == MEMBER[0].count


async def test_an_hour_has_its_own_limit() -> None:
    """DEL-24: 1000 an hour to one member, whatever the minutes allow."""
    clock = FixedClock()
    throttle = Throttle(None, clock)
    sent = 0
    for _ in range(50):
        for _ in range(30):
            sent += await throttle.take("wecom-main", "wecom", Target(users=("a",))) == 0
        clock.advance(60)
    assert sent == MEMBER[1].count
