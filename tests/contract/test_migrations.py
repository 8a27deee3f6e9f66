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


OLD_ROWS = """
INSERT INTO account_state (account_id, tenant_id, capability) VALUES ('a', 't', 'push');
INSERT INTO conversation (id, tenant_id, account_id, chat_type, peer_id, user_id, id_type, session_id, fence, created_at_ms)
VALUES ('c1', 't', 'a', 'single', 'zhangsan', 'ZhangSan', 'wecom_userid', 's', 0, 1);
INSERT INTO pending_action (id, tenant_id, account_id, conversation_id, session_id, requester_id, approver_policy, tool,
 tool_version, tool_call_id, args_json, args_digest, prompt_text, summary, risk, number, revision, status, expires_at_ms,
 idempotency_key, fence, created_at_ms)
VALUES ('pa1', 't', 'a', 'c1', 's', 'ZhangSan', 'requester', 'x', '1', 'y', '{}', 'd', 'p', 's', 'normal', 1, 1,
 'pending', 9, 'k', 0, 1);
INSERT INTO todo (id, tenant_id, owner_key, number, title, status, idempotency_key, created_at_ms) VALUES
 ('t1', 't', 'a:wecom_userid:ZhangSan', 1, '周报', 'open', 't1', 1),
 ('t2', 't', 'a:wecom_userid:zhangsan', 1, '买水', 'open', 't2', 2),
 ('t3', 't', 'a:wecom_userid:ZHANGSAN', 2, '取件', 'open', 't3', 3),
 ('t4', 't', 'a:open_id:oAbC', 1, '别动', 'open', 't4', 4);
INSERT INTO reminder (id, tenant_id, account_id, conversation_id, user_id, owner_key, number, text, next_due_ms, repeat, status,
 idempotency_key, created_at_ms)
VALUES ('r1', 't', 'a', 'c1', 'ZhangSan', 'a:wecom_userid:ZhangSan', 3, '开会', 9, 'none', 'active', 'r1', 1)
"""


async def test_from_an_old_database(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that an earlier version wrote, with its tables of revision 0001 and rows in them, opens and keeps them; what
    belongs to a WeCom member is found whatever the spelling it was stored under (CB-20)."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "HEAD", "0001")
        await asyncio.to_thread(migrate.upgrade, url)
    database = open_database(url)
    assert await database.read(migrate.revision_of) == "0001"
    for statement in OLD_ROWS.split(";"):
        await database.write(lambda c, sql=statement: c.execute(text(sql.replace(":", r"\:"))))  # type: ignore[misc]
    await database.close()
    assert await asyncio.to_thread(migrate.upgrade, url) == "0001"
    assert await read(url, differences) == []

    def rows(query: str) -> Any:
        return read(url, lambda c: [tuple(row) for row in c.execute(text(query))])

    assert await rows("SELECT capability FROM account_state") == [("push",)]
    assert await rows("SELECT id, owner_key, number FROM todo ORDER BY id") == [
        ("t1", "a:wecom_userid:zhangsan", 2),
        ("t2", "a:wecom_userid:zhangsan", 1),
        ("t3", "a:wecom_userid:zhangsan", 3),
        ("t4", "a:open_id:oAbC", 1),
    ]
    assert await rows("SELECT owner_key, number, user_id FROM reminder") == [("a:wecom_userid:zhangsan", 3, "ZhangSan")]
    assert await rows("SELECT requester_id FROM pending_action") == [("zhangsan",)]


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
