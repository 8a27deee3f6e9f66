"""A database in trouble raises DatabaseBusy, whatever its driver calls it: the same may succeed later."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text

from config.database import open_database
from config.errors import DatabaseBusy
from scripts.bench.postgres import NoPostgres, Postgres


def _run(statement: str) -> Callable[[Connection], Any]:
    return lambda connection: connection.execute(text(statement))


def _update_both(first: int, second: int) -> Callable[[Connection], None]:
    def write(connection: Connection) -> None:
        one = text("UPDATE pair SET hits = hits + 1 WHERE id = :id")
        connection.execute(one, {"id": first})
        connection.execute(text("SELECT pg_sleep(0.2)"))
        connection.execute(one, {"id": second})

    return write


async def test_a_deadlock_is_the_databases_trouble(postgres_url: str) -> None:
    database = open_database(postgres_url)
    try:
        await database.write(_run("CREATE TABLE pair (id int PRIMARY KEY, hits int)"))
        await database.write(_run("INSERT INTO pair VALUES (1, 0), (2, 0)"))
        both = (database.write(_update_both(1, 2)), database.write(_update_both(2, 1)))
        ends = await asyncio.gather(*both, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["DatabaseBusy", "NoneType"]
    finally:
        await database.close()


async def test_a_wrong_statement_is_nobodys_trouble_but_ours(postgres_url: str) -> None:
    database = open_database(postgres_url)
    try:
        with pytest.raises(Exception, match="no_such_table") as caught:
            await database.write(_run("SELECT * FROM no_such_table"))
        assert not isinstance(caught.value, DatabaseBusy)
    finally:
        await database.close()


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A PostgreSQL of this test, to be stopped and started; it takes fewer connections than are wanted."""
    try:
        own = Postgres("max_connections=12", sync=False)
    except NoPostgres as reason:
        pytest.skip(str(reason))
    with own:
        yield own


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_every_failure_of_a_server_that_stops_and_starts_is_typed(server: Postgres, how: signal.Signals) -> None:
    """Refused, cut off, starting up, too many connections: all of it DatabaseBusy, and afterwards writes go through."""
    databases = [open_database(server.url), open_database(server.url)]  # together they want more connections than there are
    raw: list[Exception] = []
    busy, running = 0, True

    async def write_on(number: int) -> None:
        nonlocal busy
        while running:
            try:
                await databases[number % 2].write(_run("SELECT pg_sleep(0.01)"))
            except DatabaseBusy:
                busy += 1
                await asyncio.sleep(0.005)
            except Exception as error:  # noqa: BLE001 -- what this looks for
                raw.append(error)
                return

    writers = [asyncio.create_task(write_on(number)) for number in range(30)]
    try:
        await asyncio.to_thread(server.stop, how)
        await asyncio.to_thread(server.start)
        running = False
        await asyncio.gather(*writers)
        assert raw == []
        assert busy > 0
        await databases[0].write(_run("SELECT 1"))
    finally:
        running = False
        await asyncio.gather(*(database.close() for database in databases))
