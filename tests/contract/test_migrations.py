"""Migrations on both databases: the migrated schema is the tables' schema, at once in many processes, never backwards."""

from __future__ import annotations

import asyncio
import os
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
from config.errors import DatabaseBroken, DatabaseNewer
from gateway import migrate
from gateway.migrations.tables import METADATA

ROOT = Path(migrate.__file__).resolve().parents[1]


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
    with pytest.raises(DatabaseNewer, match=f"它在版本 9999，这个程序最多认识 {migrate.HEAD}"):
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


def _garbled(path: Path) -> None:
    """A real database whose table of contents is damaged."""
    migrate.upgrade(f"sqlite:///{path}")
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 1500)


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"not a database, " * 400), _garbled], ids=["text", "garbled"])
def test_a_damaged_file_is_final_and_says_what_to_do(tmp_path: Path, spoil: Any) -> None:
    """Starting again does not mend it, so serve says so and ends for good; the other commands and the doctor name it, too."""
    path = tmp_path / "yizhan.db"
    spoil(path)
    with pytest.raises(DatabaseBroken, match=f"数据库文件 {path} 已损坏.*放回最近的备份"):
        migrate.upgrade(f"sqlite:///{path}")
    environ = {**os.environ, "YIZHAN_DATA_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for words, code in ((["serve"], 2), (["migrate"], 1), (["trace", "1"], 1), (["outbox", "list"], 1), (["doctor"], 1)):
        command = [sys.executable, "-m", "gateway.cli", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=60)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
        assert "已损坏" in done.stdout + done.stderr


def test_a_full_disk_is_not_final() -> None:
    """Whatever may pass by itself is tried again."""
    full, damaged = sqlite3.OperationalError("disk is full"), sqlite3.DatabaseError("malformed")
    full.sqlite_errorcode, damaged.sqlite_errorcode = sqlite3.SQLITE_FULL, sqlite3.SQLITE_CORRUPT_INDEX
    assert migrate.damage(full) is None
    assert migrate.damage(OSError(28, "No space left on device")) is None
    assert migrate.damage(damaged) == "malformed"


def test_folder_and_file_are_private(tmp_path: Path) -> None:
    """N-19: the data folder is 0700, the database file 0600."""
    migrate.upgrade(f"sqlite:///{tmp_path / 'data' / 'yizhan.db'}")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "yizhan.db").stat().st_mode & 0o777 == 0o600
