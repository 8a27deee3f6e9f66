"""Which database a process works on, as the doctor compares it."""

from __future__ import annotations

from config.database import Database, open_database
from gateway.health import database_id


async def test_every_process_on_one_database_tells_the_same(database: Database, database_url: str) -> None:
    other = open_database(database_url)
    assert await other.read(database_id) == await database.read(database_id)
    await other.close()


async def test_two_databases_of_one_server_are_two(database: Database, database_url: str) -> None:
    neighbour = f"{database_url}-2" if database.dialect == "sqlite" else f"{database_url.rsplit('/', 1)[0]}/postgres"
    other = open_database(neighbour)
    assert await other.read(database_id) != await database.read(database_id)
    await other.close()
