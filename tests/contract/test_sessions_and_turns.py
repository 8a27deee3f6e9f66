"""Epochs, transcripts and usage give the same on every database."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

import tools.models  # noqa: F401
from agent.models import Turn
from agent.usage import usage
from config.clock import FixedClock
from config.columns import table_of
from config.database import Database
from memory import epochs, transcripts
from memory.models import Conversation, Session
from memory.transcripts import Line

NOW = 1_780_000_000_000


@pytest.fixture
async def database(database: Database) -> Database:
    """With one conversation."""
    await database.write(_conversation)
    return database


def _conversation(connection: Connection) -> None:
    values = {"id": "c1", "tenant_id": "t", "account_id": "a", "chat_type": "single", "peer_id": "p", "user_id": "p"}
    connection.execute(table_of(Conversation).insert().values(**values, id_type="open_id", fence=0, created_at_ms=NOW))


async def test_epochs_rotate_and_keep_fifty(database: Database) -> None:
    def turn(connection: Connection, session: str, now: int) -> str:
        epoch = epochs.load(connection, "t", session, now)
        epochs.save(connection, "t", "c1", epoch, {"told_rule": True}, now)
        return epoch.id

    def many(connection: Connection) -> str:
        session = "s0"
        for number in range(12 * 53):
            session = turn(connection, session, NOW + number)
        return session

    session = await database.write(many)
    rows = await database.read(lambda c: list(c.execute(table_of(Session).select()).all()))
    current = await database.read(lambda c: c.execute(table_of(Conversation).select()).one().session_id)
    assert len(rows) == epochs.KEPT
    assert current == session
    assert {row.end_reason for row in rows if row.id != session} == {"turns"}


async def test_a_save_that_runs_again_counts_and_does_not_double(database: Database) -> None:
    epoch = await database.read(lambda c: epochs.load(c, "t", "s0", NOW))
    for _ in range(2):
        await database.write(lambda c: epochs.save(c, "t", "c1", epoch, {}, NOW))
    rows = await database.read(lambda c: list(c.execute(table_of(Session).select()).all()))
    assert [(row.id, row.turns) for row in rows] == [("s0", 1)]


async def test_window(database: Database) -> None:
    for number in range(9):
        lines = [Line("user", f"问{number}"), Line("assistant", f"答{number}")]
        await database.write(
            lambda c, lines=lines: transcripts.append(  # type: ignore[misc]
                c, tenant_id="t", conversation_id="c1", session_id="s1", user_id="p", lines=lines, now_ms=NOW
            )
        )
    window = await database.read(lambda c: transcripts.recent(c, "t", "c1", "s1"))
    assert [line.text for line in window][0::2] == [f"问{number}" for number in range(3, 9)]
    assert await database.read(lambda c: transcripts.recent(c, "t", "c1", "s2")) == []


async def test_usage(database: Database) -> None:
    base = {"tenant_id": "t", "account_id": "a", "conversation_id": "c1", "session_id": "s1", "user_id": "p", "route": "r"}
    counts = {"prompt_tokens": 10, "completion_tokens": 5, "cost_micro": 1_500_000, "model_calls": 1, "tool_calls": 0}
    zero = {"context_chars": 0, "model_ms": 0, "total_ms": 0}
    for number, outcome in enumerate(("answered", "failed")):
        values = {**base, **counts, **zero, "id": f"t{number}", "outcome": outcome, "created_at_ms": NOW + number}
        await database.write(lambda c, values=values: c.execute(table_of(Turn).insert().values(**values)))  # type: ignore[misc]
    (row,) = await database.read(lambda c: usage(c, FixedClock(NOW), ("day", "route"), NOW))
    assert (row.key, row.turns, row.failed, row.cost) == (("2026-05-29", "r"), 2, 1, 3.0)
    assert await database.read(lambda c: usage(c, FixedClock(NOW), ("day",), NOW, "other")) == []
