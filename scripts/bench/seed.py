"""Fills a SQLite database with past messages in bulk, as if they had been answered long ago."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Float, Integer, Table

from agent.models import Turn
from config.columns import table_of
from gateway.models import Inbound, OutboxMessage
from memory.keys import conversation_id
from memory.models import Conversation, Message, Session

PEOPLE = 1_000
_BATCH = 20_000
_LONG_AGO_MS = 30 * 86_400_000
_STEP_MS = 100


def person(number: int) -> str:
    """The open id of one of the seeded people."""
    return f"oGrowth{number % PEOPLE:04d}"


def seed(database: Path, tenant: str, account: str, first: int, last: int, now_ms: int) -> None:
    """Store messages ``first`` to ``last`` (not included) of ``PEOPLE`` people with their answers, turns and transcript."""
    with sqlite3.connect(database, timeout=30) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA cache_size=-400000")
        connection.execute("PRAGMA wal_autocheckpoint=100000")
        _insert(connection, table_of(Conversation), _conversations(tenant, account, now_ms))
        _insert(connection, table_of(Session), _sessions(tenant, account, now_ms))
        for begin in range(first, last, _BATCH):
            numbers = range(begin, min(last, begin + _BATCH))
            for table, rows in (
                (Inbound, (_inbound(tenant, account, n, now_ms) for n in numbers)),
                (OutboxMessage, (_outbox(tenant, account, n, now_ms) for n in numbers)),
                (Turn, (_turn(tenant, account, n, now_ms) for n in numbers)),
                (Message, (_message(tenant, account, n, role, now_ms) for n in numbers for role in ("user", "assistant"))),
            ):
                _insert(connection, table_of(table), rows)
            connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _insert(connection: sqlite3.Connection, table: Table, rows: Iterator[dict[str, Any]]) -> None:
    names = [column.name for column in table.columns if not (column.primary_key and column.autoincrement is True)]
    empty = {column.name: _empty(column.type) for column in table.columns if not column.nullable}
    statement = f"INSERT OR IGNORE INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
    connection.executemany(statement, ([_plain((empty | row).get(name)) for name in names] for row in rows))


def _empty(kind: Any) -> Any:
    return 0 if isinstance(kind, Integer | Boolean | Float) else ""


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _where(tenant: str, account: str, number: int) -> dict[str, Any]:
    user = person(number)
    where = conversation_id(tenant, account, "single", user)
    return {"tenant_id": tenant, "account_id": account, "conversation_id": where, "user_id": user, "session_id": f"s{where}"}


def _then(number: int, now_ms: int) -> int:
    return now_ms - _LONG_AGO_MS + number * _STEP_MS


def _conversations(tenant: str, account: str, now_ms: int) -> Iterator[dict[str, Any]]:
    for number in range(PEOPLE):
        row = _where(tenant, account, number)
        row |= {"id": row["conversation_id"], "chat_type": "single", "peer_id": row["user_id"], "id_type": "open_id"}
        yield row | {"last_inbound_ms": now_ms - 1, "last_act_ms": now_ms - 1, "created_at_ms": now_ms - _LONG_AGO_MS}


def _sessions(tenant: str, account: str, now_ms: int) -> Iterator[dict[str, Any]]:
    for number in range(PEOPLE):
        row = _where(tenant, account, number)
        yield row | {"id": row["session_id"], "turns": 1, "started_at_ms": now_ms - 60_000, "last_turn_ms": now_ms - 60_000}


def _inbound(tenant: str, account: str, number: int, now_ms: int) -> dict[str, Any]:
    at = _then(number, now_ms)
    row = _where(tenant, account, number) | {"key": f"seed-{number}", "message_id": f"{number}", "kind": "text", "lane": "turn"}
    row |= {
        "status": "done",
        "body": {"text": f"第 {number} 个问题，今天怎么样"},
        "answer_group": f"gseed{number}",
        "deliveries": 1,
    }
    return row | {"sent_at_ms": at, "received_at_ms": at, "finished_at_ms": at + 10}


def _outbox(tenant: str, account: str, number: int, now_ms: int) -> dict[str, Any]:
    at = _then(number, now_ms)
    row = _where(tenant, account, number) | {"idempotency_key": f"seed-{number}:0", "group_id": f"gseed{number}", "parts": 1}
    row |= {"cause": "inbound", "cause_id": str(number), "final": True, "kind": "text", "status": "sent", "via": "passive"}
    return row | {
        "payload": {"kind": "text", "payload": {}, "text": f"第 {number} 个回答"},
        "created_at_ms": at,
        "sent_at_ms": at,
    }


def _turn(tenant: str, account: str, number: int, now_ms: int) -> dict[str, Any]:
    row = _where(tenant, account, number) | {"id": f"tseed{number}", "inbound_seq": number, "route": "offline"}
    return row | {"outcome": "answered", "created_at_ms": _then(number, now_ms)}


def _message(tenant: str, account: str, number: int, role: str, now_ms: int) -> dict[str, Any]:
    row = _where(tenant, account, number) | {"role": role, "text": f"第 {number} 句话", "inbound_seq": number}
    return row | {"created_at_ms": _then(number, now_ms)}
