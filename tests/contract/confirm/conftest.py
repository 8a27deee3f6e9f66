"""A world per test and database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlmodel import SQLModel

from config.clock import FixedClock
from config.database import open_database
from config.schema import Limits
from gateway.outbox import SqlOutbox
from tests.contract.confirm.world import World
from tests.fakes.channel import FakeChannel, wecom_account


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
