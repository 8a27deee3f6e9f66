"""A database and a deployment a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from config.database import open_database
from config.schema import (
    ToolSettings,
)
from tests.integration.tools.office import Office


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Any]:
    """SQLite with every table."""
    opened = open_database(f"sqlite:///{tmp_path / 'yizhan.db'}")
    await opened.write(lambda c: SQLModel.metadata.create_all(c))
    yield opened
    await opened.close()


@pytest.fixture
def office(tmp_path: Path, database: Any) -> Office:
    """Nothing configured but the accounts."""
    return Office(tmp_path, database, ToolSettings())
