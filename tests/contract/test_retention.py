"""Retention on both databases: old settled bodies go, open ones and young ones stay, rows and keys stay (N-10)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, update

from config.clock import FixedClock
from config.columns import table_of
from config.database import Database
from gateway.leader import lead, step_down
from gateway.models import Inbound, OutboxMessage
from gateway.retention import BodyRetention, blank, body_columns, due
from memory.models import Message

NOW = 1_800_000_000_000
DAY = 24 * 3600 * 1000
INBOUND, OUTBOX, MESSAGE = table_of(Inbound), table_of(OutboxMessage), table_of(Message)


def blank_all(connection: Connection, before_ms: int) -> dict[str, int]:
    counts = {}
    for table, columns in body_columns():
        keys = due(connection, table, columns, before_ms, limit=500)
        counts[table.name] = blank(connection, table, columns, before_ms, keys)
    return counts


def fill(connection: Connection) -> None:
    base = {"tenant_id": "t", "account_id": "a", "conversation_id": "c", "user_id": "u"}
    for seq, (age_days, status) in enumerate([(31, "done"), (29, "done"), (31, "running"), (400, "dead")], 1):
        moment = NOW - age_days * DAY
        inbound = {"seq": seq, "key": f"k{seq}", "kind": "text", "lane": "turn", "status": status, "body": {"text": "秘密"}}
        counts = {"deliveries": 1, "attempts": 0, "deaths": 0, "stop_requested": False}
        connection.execute(insert(INBOUND).values(**base, **inbound, **counts, sent_at_ms=moment, received_at_ms=moment))
        state = "parked" if status == "running" else "sent"
        outbox: dict[str, Any] = {
            "seq": seq,
            "idempotency_key": f"o{seq}",
            "cause": "inbound",
            "cause_id": "1",
            "group_id": f"g{seq}",
        }
        outbox |= {"kind": "text", "payload": {"text": "秘密"}, "request": b"frozen", "label": "秘密", "status": state}
        outbox |= {"part": 0, "parts": 1, "final": True, "duplicate_check": False, "attempts": 0, "repeats": 0, "fence": 0}
        connection.execute(insert(OUTBOX).values(**base, **outbox, created_at_ms=moment))
        message = {"tenant_id": "t", "conversation_id": "c", "session_id": "s", "user_id": "u", "role": "user", "text": "秘密"}
        connection.execute(insert(MESSAGE).values(**message, created_at_ms=moment))


async def test_n_10_bodies_are_blanked_after_the_setting(database: Database) -> None:
    """N-10: inbound and outbox bodies are blanked after 30 days; keys and states stay, so redeliveries still join."""
    await database.write(fill)
    counts = await database.write(lambda c: blank_all(c, NOW - 30 * DAY))
    assert (counts["inbound"], counts["outbox_message"], counts["message"]) == (2, 2, 3)
    inbound = await database.read(lambda c: c.execute(select(INBOUND.c.key, INBOUND.c.body).order_by(INBOUND.c.seq)).all())
    assert [(row.key, row.body is None) for row in inbound] == [("k1", True), ("k2", False), ("k3", False), ("k4", True)]
    columns = (OUTBOX.c.payload, OUTBOX.c.request, OUTBOX.c.label, OUTBOX.c.status)
    outbox = await database.read(lambda c: c.execute(select(*columns).order_by(OUTBOX.c.seq)).all())
    assert [tuple(row) for row in outbox] == [
        (None, None, None, "sent"),
        ({"text": "秘密"}, b"frozen", "秘密", "sent"),
        ({"text": "秘密"}, b"frozen", "秘密", "parked"),
        (None, None, None, "sent"),
    ]
    texts = await database.read(lambda c: c.execute(select(MESSAGE.c.text).order_by(MESSAGE.c.id)).scalars().all())
    assert texts == ["", "秘密", "", ""]


async def test_a_second_pass_touches_nothing(database: Database) -> None:
    await database.write(fill)
    await database.write(lambda c: blank_all(c, NOW))
    again = await database.write(lambda c: blank_all(c, NOW))
    assert set(again.values()) == {0}


async def test_a_pass_walks_the_whole_table_in_small_steps(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-10: more rows than one step takes are all blanked; a row that was opened again between look and blanking stays."""
    monkeypatch.setattr("gateway.retention._BATCH", 1)
    await database.write(fill)
    settings = SimpleNamespace(retention=SimpleNamespace(body_days=30))
    services: Any = SimpleNamespace(owner="p1", database=database, clock=FixedClock(NOW), settings=settings)
    assert await BodyRetention(services).pass_once() == 2 + 2 + 3
    columns = [INBOUND.c.body]
    await database.write(lambda c: c.execute(update(INBOUND).values(body={"text": "秘密"}, status="running")))
    assert await database.write(lambda c: blank(c, INBOUND, columns, NOW, [1, 4])) == 0


async def test_one_leader_at_a_time(database: Database) -> None:
    """N-09: the right to reap or to blank is one process's until it steps down or dies."""
    names = ["one", "two", "one", "two"]
    led = [await database.write(lambda c, name=name: lead(c, "reaper", name)) for name in names]  # type: ignore[misc]
    assert led == [True, False, True, False]
    assert await database.write(lambda c: lead(c, "retention", "two"))
    await database.write(lambda c: step_down(c, "reaper", "two"))
    assert not await database.write(lambda c: lead(c, "reaper", "two"))
    await database.write(lambda c: step_down(c, "reaper", "one"))
    assert await database.write(lambda c: lead(c, "reaper", "two"))


async def test_leaders_that_start_at_once(database: Database) -> None:
    led = await asyncio.gather(*(database.write(lambda c, n=n: lead(c, "x", f"p{n}")) for n in range(8)))  # type: ignore[misc]
    assert sum(led) == 1
