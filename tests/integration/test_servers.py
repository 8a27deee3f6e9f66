"""The servers the other tests rely on are real and separate."""

from __future__ import annotations

import asyncpg
import redis.asyncio


async def test_valkey_is_real_and_empty(valkey: str) -> None:
    async with redis.asyncio.Redis.from_url(valkey) as client:
        assert await client.dbsize() == 0
        await client.set("a", "1")
        assert (await client.info("server"))["process_id"] > 0


async def test_postgres_is_fresh(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    finally:
        await connection.close()
