"""One gateway's road per test, on SQLite and PostgreSQL: real database, inbox, runner and dispatcher, a scripted turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
import memory.models  # noqa: F401
import tools.models  # noqa: F401
from config.database import Database, open_database
from tests.contract.road.road import Road, build_road


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database with every table."""
    url = f"sqlite:///{tmp_path / 'yizhan.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    opened = open_database(url)
    await opened.write(lambda connection: SQLModel.metadata.create_all(connection))
    yield opened
    await opened.close()


@pytest.fixture
async def road(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Road]:
    """A gateway with a WeCom app, a verified and an unverified Official Account."""
    built = await build_road(database, monkeypatch)
    yield built
    await built.runner.close(0.1)
    await built.fast.close(0.1)
