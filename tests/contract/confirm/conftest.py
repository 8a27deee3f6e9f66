"""A world per test and database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
import memory.models  # noqa: F401
import tools.models  # noqa: F401
from config.clock import FixedClock
from config.database import open_database
from config.schema import Limits
from gateway.outbox import SqlOutbox
from tests.contract.confirm.world import World
from tests.fakes.channel import FakeChannel, wecom_account


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'yizhan.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    """One deployment with zhangsan's conversation."""
    database = open_database(database_url)
    await database.write(lambda c: SQLModel.metadata.create_all(c))
    clock = FixedClock()
    channel = FakeChannel(limit=2000)
    outbox = SqlOutbox({"wecom-main": channel}, clock, Limits())
    yield World(database, outbox, clock, wecom_account())
    await database.close()
