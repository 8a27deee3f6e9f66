"""A PostgreSQL that hangs: what tells operators about it must not hang as well."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sqlalchemy import text

from config.settings import demo_settings
from gateway.app import build, close
from gateway.health import readiness
from gateway.metrics import Metrics
from gateway.migrate import upgrade


async def test_readiness_and_metrics_come_out_while_every_statement_waits(tmp_path: Path, valkey: str, postgres_url: str) -> None:
    """Another client holds a lock that every look needs; both answers come within three seconds and say the database is away."""
    settings = demo_settings(tmp_path, redis_url=valkey, database_url=postgres_url)
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    services = await build(settings)
    held, release = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hold() -> None:
        engine = services.database._engine  # type: ignore[attr-defined]
        async with engine.begin() as connection:
            await connection.execute(text("LOCK TABLE alembic_version, inbound, job, outbox_message IN ACCESS EXCLUSIVE MODE"))
            held.set()
            await release.wait()

    holding = asyncio.create_task(hold())
    try:
        await held.wait()
        started = loop.time()
        (ready, parts), rendered = await asyncio.gather(readiness(services), Metrics().render(services))
        assert loop.time() - started < 3.0
        assert not ready
        assert parts["database"] == "away"
        assert b'yizhan_up{part="database"} 0.0' in rendered
    finally:
        release.set()
        await holding
        await close(services)
