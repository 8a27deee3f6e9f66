"""What every contract holds on: an empty database of each kind with every table."""

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


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'yizhan.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """It, open, with every table."""
    opened = open_database(database_url)
    await opened.write(lambda connection: SQLModel.metadata.create_all(connection))
    yield opened
    await opened.close()
