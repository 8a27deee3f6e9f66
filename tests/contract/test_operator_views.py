"""What operators read from the database works on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from config.clock import FixedClock
from config.columns import table_of
from config.database import Database, open_database
from config.demo import demo_accounts
from config.schema import Settings
from gateway.connect import Facts, look_inside
from gateway.doctor_system import check_database, check_messages
from gateway.migrate import upgrade
from gateway.models import Inbound, OutboxMessage
from gateway.trace import stories

NOW = 1_764_500_000_000
WHERE = {"tenant_id": "acme", "account_id": "wecom-main", "conversation_id": "c1", "user_id": "ZhangSan"}


def _inbound(seq: int, **values: Any) -> dict[str, Any]:
    row = {"seq": seq, "key": f"k{seq}", "kind": "text", "lane": "turn", "message_id": f"77{seq}", "status": "done"}
    row |= {"answer_group": f"g{seq}", "deliveries": 1, "attempts": 0, "deaths": 0, "stop_requested": False}
    return WHERE | row | {"sent_at_ms": NOW, "received_at_ms": NOW, "finished_at_ms": NOW} | values


def _outbox(seq: int, **values: Any) -> dict[str, Any]:
    row = {"seq": seq, "idempotency_key": f"in:{seq}:0", "cause": "inbound", "cause_id": str(seq), "group_id": f"g{seq}"}
    row |= {
        "part": 0,
        "parts": 1,
        "final": True,
        "kind": "text",
        "duplicate_check": False,
        "attempts": 1,
        "repeats": 0,
        "fence": 0,
    }
    return WHERE | row | {"status": "sent", "via": "push", "created_at_ms": NOW, "sent_at_ms": NOW} | values


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """A migrated database of each kind with three messages: answered, waiting for an operator, not answered yet."""
    import asyncio

    url = f"sqlite:///{tmp_path / 'y.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    await asyncio.to_thread(upgrade, url)
    database = open_database(url)
    stuck = {"status": "parked", "park_reason": "operator", "via": None, "sent_at_ms": None, "errcode": 60020, "errmsg": "ip"}
    waiting = {"status": "received", "answer_group": None, "finished_at_ms": None, "received_at_ms": NOW - 400_000}

    def write(connection: Any) -> None:
        connection.execute(table_of(Inbound).insert(), [_inbound(1), _inbound(2)])
        connection.execute(table_of(Inbound).insert(), [_inbound(3, **waiting)])
        connection.execute(table_of(OutboxMessage).insert(), [_outbox(1)])
        connection.execute(table_of(OutboxMessage).insert(), [_outbox(2, **stuck)])

    await database.write(write)
    yield database
    await database.close()


@pytest.mark.parametrize(
    ("wanted", "count"), [("771", 1), ("2", 1), ("g1", 1), ("in:1:0", 1), ("zhangsan", 3), ("nobody", 0), ("123456789012345", 0)]
)
async def test_trace(database: Database, wanted: str, count: int) -> None:
    """Every kind of id finds its story."""
    assert len(await database.read(lambda c: stories(c, wanted))) == count


async def test_doctor(database: Database) -> None:
    """The same findings on both."""
    assert (await check_database(database)).level == "ok"
    found = await database.read(lambda c: check_messages(c, FixedClock(NOW), ("acme",)))
    assert {finding.check: finding.level for finding in found} == {
        "unanswered": "fail",
        "outbox": "ok",
        "outbox-operator": "fail",
    }


async def test_connect(database: Database, tmp_path: Path) -> None:
    """What has arrived and gone out is seen."""
    tenants = [{"id": "acme", "accounts": demo_accounts("http://127.0.0.1:1")}]
    settings = Settings.model_validate({"data_dir": tmp_path, "tenants": tenants})
    facts = await look_inside(settings, settings.tenants[0].accounts[0], database, Facts())
    assert (facts.callbacks, facts.first_user, facts.pushes) == (1, "ZhangSan", 1)
