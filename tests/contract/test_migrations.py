"""Migrations on both databases: the migrated schema is the tables' schema, at once in many processes, never backwards."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from config.database import open_database
from config.errors import DatabaseNewer
from gateway import migrate
from gateway.migrations.tables import METADATA


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'yizhan.db'}"
    else:
        yield request.getfixturevalue("postgres_url")


async def read(url: str, fn: Any) -> Any:
    database = open_database(url)
    try:
        return await database.read(fn)
    finally:
        await database.close()


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, METADATA))


async def test_the_migrated_schema_is_the_tables_schema(url: str) -> None:
    assert await asyncio.to_thread(migrate.upgrade, url) == ""
    assert await read(url, differences) == []
    assert await read(url, migrate.revision_of) == migrate.HEAD


async def test_a_second_run_changes_nothing(url: str) -> None:
    await asyncio.to_thread(migrate.upgrade, url)
    assert await asyncio.to_thread(migrate.upgrade, url) == migrate.HEAD


async def test_a_newer_database_is_refused(url: str) -> None:
    await asyncio.to_thread(migrate.upgrade, url)
    database = open_database(url)
    await database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    await database.close()
    with pytest.raises(DatabaseNewer, match=f"at revision 9999, this version knows {migrate.HEAD}"):
        await asyncio.to_thread(migrate.upgrade, url)


async def test_processes_that_migrate_at_once_all_succeed(url: str) -> None:
    code = f"from gateway.migrate import upgrade; upgrade({url!r})"
    children = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(3)]
    for child in children:
        _, errors = await asyncio.to_thread(child.communicate)
        assert child.returncode == 0, errors.decode()
    assert await read(url, differences) == []


def test_from_an_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that an earlier version wrote, with its tables of revision 0001 and a row in them, opens and keeps the row."""
    path = tmp_path / "old.db"
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "HEAD", "0001")
        migrate.upgrade(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO account_state (account_id, tenant_id, capability) VALUES ('a', 't', 'push')")
    connection.commit()
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
    connection.close()
    assert migrate.upgrade(f"sqlite:///{path}") == "0001"
    assert asyncio.run(read(f"sqlite:///{path}", differences)) == []
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT capability FROM account_state").fetchall() == [("push",)]
    connection.close()


def test_the_constant_names_the_head_of_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert script.get_current_head() == migrate.HEAD
    assert [revision.revision for revision in script.walk_revisions()][::-1] == list(migrate.REVISIONS)


def test_folder_and_file_are_private(tmp_path: Path) -> None:
    """N-19: the data folder is 0700, the database file 0600."""
    migrate.upgrade(f"sqlite:///{tmp_path / 'data' / 'yizhan.db'}")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "yizhan.db").stat().st_mode & 0o777 == 0o600
