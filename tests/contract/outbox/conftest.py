"""One outbox world per test, on SQLite and on PostgreSQL: database, fake channels, a clock that only moves when told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
import memory.models  # noqa: F401
import tools.models  # noqa: F401
from config.clock import FixedClock
from config.database import Database, open_database
from config.schema import Limits
from gateway.outbox import SqlOutbox
from tests.contract.outbox.world import World
from tests.fakes.channel import FakeChannel, mp_account


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database with every table."""
    url = f"sqlite:///{tmp_path / 'yizhan.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    opened = open_database(url)
    await opened.write(lambda connection: SQLModel.metadata.create_all(connection))
    yield opened
    await opened.close()


@pytest.fixture
def world(database: Database) -> World:
    """A WeCom app, an Official Account, their outbox."""
    channels: dict[str, Any] = {"wecom-main": FakeChannel(), "mp-main": FakeChannel(account=mp_account(), handle=False)}
    clock = FixedClock()
    limits = Limits(max_parts=3)
    return World(database, channels, clock, SqlOutbox(channels, clock, limits), limits)
