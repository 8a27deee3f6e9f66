"""One outbox world per test, on SQLite and on PostgreSQL: database, fake channels, a clock that only moves when told."""

from __future__ import annotations

from typing import Any

import pytest

from config.clock import FixedClock
from config.database import Database
from config.schema import Limits
from gateway.outbox import SqlOutbox
from tests.contract.outbox.world import World
from tests.fakes.channel import FakeChannel, mp_account


@pytest.fixture
def world(database: Database) -> World:
    """A WeCom app, an Official Account, their outbox."""
    channels: dict[str, Any] = {"wecom-main": FakeChannel(), "mp-main": FakeChannel(account=mp_account(), handle=False)}
    clock = FixedClock()
    limits = Limits(max_parts=3)
    return World(database, channels, clock, SqlOutbox(channels, clock, limits), limits)
