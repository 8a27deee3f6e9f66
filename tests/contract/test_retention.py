"""Retention on both databases: old settled bodies go, open ones and young ones stay, rows and keys stay longer (N-10)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import JSON, Boolean, Connection, Integer, Table, insert, select, update

from config.clock import FixedClock
from config.columns import row_life, table_of
from config.database import Database
from gateway.leader import lead, step_down
from gateway.migrations.tables import METADATA
from gateway.models import Inbound, OutboxMessage, Push
from gateway.outbox_states import FINISHED
from gateway.retention import RetentionPass, blank, blankable, body_columns, due, mortal_tables
from memory.models import Message

NOW = 1_800_000_000_000
DAY = 24 * 3600 * 1000
INBOUND, OUTBOX, MESSAGE, PUSH = table_of(Inbound), table_of(OutboxMessage), table_of(Message), table_of(Push)


def blank_all(connection: Connection, before_ms: int) -> dict[str, int]:
    counts = {}
    for table, columns in body_columns():
        where = blankable(table, columns, before_ms)
        counts[table.name] = blank(connection, table, columns, where, due(connection, table, where))
    return counts


def retention_at(database: Database, now_ms: int, data_dir: Path = Path("nowhere"), owner: str = "p1") -> RetentionPass:
    kept = SimpleNamespace(body_days=30, row_days=400)
    settings = SimpleNamespace(retention=kept, data_dir=data_dir, limits=SimpleNamespace(park_days=7.0))
    services: Any = SimpleNamespace(owner=owner, database=database, clock=FixedClock(now_ms), settings=settings)
    return RetentionPass(services)


def row_of(table: Table, number: int, **known: Any) -> dict[str, Any]:
    """A row with something in every column that needs it."""
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.name in known:
            row[column.name] = known[column.name]
        elif column.primary_key or (not column.nullable and column.default is None):
            plain: Any = {} if isinstance(column.type, JSON) else number if isinstance(column.type, Integer) else f"x{number}"
            row[column.name] = False if isinstance(column.type, Boolean) else plain
    return row


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
    retention = retention_at(database, NOW)
    assert await retention.blank_bodies() == 2 + 2 + 3
    where = blankable(INBOUND, [INBOUND.c.body], NOW)
    await database.write(lambda c: c.execute(update(INBOUND).values(body={"text": "秘密"}, status="running")))
    assert await database.write(lambda c: blank(c, INBOUND, [INBOUND.c.body], where, [1, 4])) == 0


def fill_all(connection: Connection) -> set[tuple[str, str]]:
    """Rows of every age and state in every table; returns which are to go: (table, ``x`` and number)."""
    gone, number = set(), 0
    for table in METADATA.sorted_tables:
        life = row_life(table)
        moment = "created_at_ms" if life is None else life.moment
        states = ["any"] if "status" not in table.c else [*STATES_OF[table.name]]
        for state in states:
            for age_days in (399, 401):
                number += 1
                known = {moment: NOW - age_days * DAY, "status": state, "key": f"x{number}", "idempotency_key": f"x{number}"}
                known |= {"cause_id": "x0", "call_key": None, "action_id": None}
                connection.execute(insert(table).values(row_of(table, number, **known)))
                if life is not None and age_days > 400 and (not life.settled or state in life.settled):
                    gone.add((table.name, f"x{number}"))
    return gone


STATES_OF = {
    "inbound": ("received", "running", "done", "failed", "stopped", "dead", "refused"),
    "outbox_message": (*FINISHED, "passive_reserved", "pending", "sending", "parked", "unknown"),
    "job": ("queued", "running", "done", "failed", "dead", "cancelled"),
    "pending_action": (
        *("draft", "pending", "confirmed", "executing", "succeeded", "failed", "unknown", "needs_human"),
        *("rejected", "expired", "withdrawn", "superseded", "choice"),
    ),
    "todo": ("open", "done"),
    "reminder": ("active", "done", "cancelled"),
}


def keys_of(connection: Connection) -> set[tuple[str, str]]:
    found = set()
    for table in METADATA.sorted_tables:
        (key,) = table.primary_key.columns
        found |= {(table.name, f"x{str(value).removeprefix('x')}") for value in connection.execute(select(key)).scalars()}
    return found


async def test_n_10_old_settled_rows_are_deleted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-10: ``retention.row_days`` after it came a row goes once it is settled; open and undecided ones and tables of lasting
    things stay whatever their age. In steps of one row, once a day, in one process."""
    monkeypatch.setattr("gateway.retention._BATCH", 1)
    gone = await database.write(fill_all)
    before = await database.read(keys_of)
    assert {name for name, _ in gone} == {table.name for table, _ in mortal_tables()}
    assert await retention_at(database, NOW).delete_rows() == len(gone)
    lease = {("lease", "xretention_rows")}
    assert await database.read(keys_of) == before - gone | lease
    assert await retention_at(database, NOW + 2 * DAY, owner="p2").delete_rows() == 0, "the right is another's"
    assert await retention_at(database, NOW + DAY - 1).delete_rows() == 0, "not a day has passed"
    assert await retention_at(database, NOW + 2 * DAY).delete_rows() > 0


async def test_n_10_a_push_goes_after_its_last_target(database: Database) -> None:
    """N-10: while a target's result is open or unknown its push can still be asked for."""
    old = NOW - 401 * DAY

    def two_pushes(connection: Connection) -> None:
        for number, state in enumerate(("sent", "unknown"), 1):
            connection.execute(insert(PUSH).values(row_of(PUSH, number, id=f"p{number}", created_at_ms=old)))
            target = {"cause": "push", "cause_id": f"p{number}", "status": state, "created_at_ms": old}
            connection.execute(insert(OUTBOX).values(row_of(OUTBOX, number, **target)))

    await database.write(two_pushes)
    assert await retention_at(database, NOW).delete_rows() == 2
    assert await database.read(lambda c: c.execute(select(PUSH.c.id)).scalars().all()) == ["p2"]


def test_what_is_deleted_of_the_outbox_is_what_is_finished() -> None:
    life = row_life(OUTBOX)
    assert life is not None
    assert life.settled == FINISHED


async def test_n_10_files_go_with_their_bodies(database: Database, tmp_path: Path) -> None:
    """N-10: folders of days that are over go in every process, those of scheduled pushes and foreign ones stay."""
    retention = retention_at(database, NOW, tmp_path)
    assert await retention.remove_files() == 0
    days = ("2026-12-15", "20261214", "2026-12-16", "20261216", "2027-01-15", "2027-03-01", "lost+found")
    for root in ("media", "outgoing"):
        for day in days:
            (tmp_path / root / day / "somebody").mkdir(parents=True)
    assert await retention.remove_files() == 4
    assert {path.name for path in (tmp_path / "media").iterdir()} == set(days[2:])


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
