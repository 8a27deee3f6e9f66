"""A process's services on a real Valkey and each database, for the tests of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from config.settings import demo_settings
from gateway.app import build, close
from gateway.jobs import JobFunction
from gateway.migrate import upgrade
from gateway.services import Services
from tests.integration.jobs.steps import working


@pytest.fixture(params=["sqlite", "postgresql"])
async def services(request: pytest.FixtureRequest, tmp_path: Path, valkey: str) -> AsyncIterator[Services]:
    database_url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    settings = demo_settings(tmp_path, redis_url=valkey, database_url=database_url, worker={"slots": 4, "turn_slots": 1})
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    built = await build(settings)
    yield built
    await close(built)


@pytest.fixture
def running(services: Services) -> Callable[[dict[str, JobFunction]], asyncio.Task[None]]:
    def start(functions: dict[str, JobFunction]) -> asyncio.Task[None]:
        return asyncio.create_task(working(services, functions))

    return start
