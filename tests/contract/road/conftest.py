"""One gateway's road per test, on SQLite and PostgreSQL: real database, inbox, runner and dispatcher, a scripted turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from config.database import Database
from tests.contract.road.road import Road, build_road


@pytest.fixture
async def road(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Road]:
    """A gateway with a WeCom app, a verified and an unverified Official Account."""
    built = await build_road(database, monkeypatch)
    yield built
    await built.runner.close(0.1)
    await built.fast.close(0.1)
