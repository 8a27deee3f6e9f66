"""The commands push, keys and outbox as a person at a terminal meets them: words, exit codes, what is in the database."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main

SETTINGS = """
data_dir: {data}
redis_url: unix://{data}/none.sock
tenants:
  - id: acme
    accounts:
      - {{id: wecom-main, platform: wecom, corp_id: ww0123456789abcdef, agent_id: 1000002, secret: "abcdefgh",
          callback_token: "tok", encoding_aes_key: "{key}"}}
"""


class Terminal:
    """Runs commands against one settings file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = folder / "yizhan.yaml"
        self.database = folder / "data" / "yizhan.db"
        self._capsys = capsys
        self.file.write_text(SETTINGS.format(data=folder / "data", key="a" * 43), "utf-8")

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error (without log lines)."""
        code = main([*words, "--config", str(self.file)])
        out, err = self._capsys.readouterr()
        return code, out, "\n".join(line for line in err.splitlines() if not line.startswith("{"))

    def rows(self, sql: str) -> list[Any]:
        """What the database holds."""
        with sqlite3.connect(self.database) as connection:
            found = connection.execute(sql).fetchall()
        connection.close()
        return found


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A terminal beside a migrated database."""
    made = Terminal(tmp_path, capsys)
    assert made("migrate")[0] == 0
    return made


def test_keys_are_made_listed_and_revoked(terminal: Terminal) -> None:
    """N-13: the key is printed once and stored hashed; the list shows its beginning; revoking is at once."""
    code, out, err = terminal("keys", "create", "--name", "库存告警", "--scope", "push", "--expires", "30d")
    key = out.strip()
    assert code == 0
    assert re.fullmatch(r"yzk_[A-Za-z0-9_-]{43}", key)
    assert "以后不再显示" in err
    assert key not in str(terminal.rows("SELECT * FROM api_key"))
    assert key[:12] in terminal("keys", "list")[1]
    assert terminal("keys", "revoke", key[:12])[1].strip() == f"{key[:12]} 已吊销，立即生效"
    assert "已吊销" in terminal("keys", "list")[1]
    assert terminal("keys", "revoke", "yzk_nothing")[0] == 1
    code, _, err = terminal("keys", "create", "--tenant", "nobody")
    assert (code, "acme" in err) == (2, True)


def test_push_to_a_list_once(terminal: Terminal, tmp_path: Path) -> None:
    """A list from a file, each person once; the same key with the same list again adds nothing."""
    names = [f"u{number}" for number in range(450)]
    (tmp_path / "list.txt").write_text("# 名单\n" + "\n".join([*names, "u1", "u2, u3"]), "utf-8")
    call = ("push", "--account", "wecom-main", "--users-file", str(tmp_path / "list.txt"), "--key", "stock", "库存不足")
    for _ in range(2):
        code, out, _ = terminal(*call)
        assert (code, "已受理 450 个目标" in out) == (0, True)
    assert terminal.rows("SELECT count(*), count(DISTINCT user_id) FROM outbox_message") == [(450, 450)]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("push", "--account", "wecom-main", "你好"), "发给谁"),
        (("push", "--account", "wecom-main", "--user", "a"), "没有内容"),
        (("push", "--account", "wecom-main", "--all", "你好"), "--yes"),
        (("push", "--account", "nowhere", "--user", "a", "你好"), "wecom-main"),
        (("push", "--account", "wecom-main", "--user", "a", "--expires-at", "2026-03-01T09:00", "你好"), "expires_at"),
        (("push", "--account", "wecom-main", "--user", "a", "--file", "/nowhere/x.txt"), "读不了"),
        (
            ("push", "--account", "wecom-main", "--user", "a", "--not-before", "明天", "你好"),
            "not_before 不合要求。要写带时区的时刻",
        ),
        (("push", "--account", "wecom-main", "--users-file", sys.executable, "你好"), "不是 UTF-8 文本"),
        (("push", "--account", "wecom-main", "--user", "a", "--message", sys.executable), "不是 UTF-8 文本"),
        (("outbox", "retry"), "二选一"),
        (("menu", "publish", "wecom-main", "/nowhere/menu.yaml"), "No such file"),
        (("menu", "publish", "wecom-main", sys.executable), "不是 UTF-8 文本"),
        (("usage", "--tenant", "nowhere"), "没有租户 nowhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_faulty_calls_say_what_to_do(terminal: Terminal, words: tuple[str, ...], told: str) -> None:
    """A fault in the call: exit code 2, one sentence that names it, nothing stored."""
    code, _, err = terminal(*words)
    assert code == 2
    assert told in err
    assert terminal.rows("SELECT count(*) FROM outbox_message") == [(0,)]


def test_push_of_a_file_keeps_a_copy(terminal: Terminal, tmp_path: Path) -> None:
    """The file is copied into the data folder, so it may be moved or changed before it is sent."""
    (tmp_path / "周报.txt").write_text("本周一切正常", "utf-8")
    assert terminal("push", "--account", "wecom-main", "--user", "a", "--file", str(tmp_path / "周报.txt"))[0] == 0
    payload = json.loads(terminal.rows("SELECT payload FROM outbox_message")[0][0])["payload"]["file"]
    assert payload["file_name"] == "周报.txt"
    copied = Path(payload["path"])
    assert copied.is_relative_to(tmp_path / "data")
    assert copied.read_text("utf-8") == "本周一切正常"


def test_outbox_is_seen_retried_and_dropped(terminal: Terminal) -> None:
    """DEL-03: errcode and the platform's words are in the list, ids masked, no message text; retry and drop do as told."""
    terminal("push", "--account", "wecom-main", "--user", "zhangsan", "--user", "lisi", "机密内容")
    with sqlite3.connect(terminal.database) as connection:
        connection.execute("UPDATE outbox_message SET status='dead', errcode=45002, errmsg='too long' WHERE user_id='lisi'")
    connection.close()
    code, out, _ = terminal("outbox", "list")
    assert code == 0
    assert "失败 1" in out
    assert "等待发送 1" in out
    assert "45002 too long" in out
    assert "zha***an" in out
    assert "zhangsan" not in out
    assert "机密" not in out
    assert "zhangsan" in terminal("outbox", "list", "--full-ids")[1]
    listed = json.loads(terminal("outbox", "list", "--state", "dead", "--json")[1])
    assert [row["who"] for row in listed["rows"]] == ["l***"]
    seq = str(listed["rows"][0]["seq"])
    assert terminal("outbox", "retry", seq) == (0, "已重新排队 1 条\n", "")
    assert terminal("outbox", "retry", seq)[0] == 1
    assert terminal("outbox", "drop", "--state", "pending")[1] == "已丢弃 2 条\n"
    assert terminal.rows("SELECT DISTINCT status FROM outbox_message") == [("cancelled",)]


def test_wait_tells_who_was_not_reached(terminal: Terminal) -> None:
    """--wait: exit code 1 while somebody was not reached, with each one's reason."""
    code, out, _ = terminal("push", "--account", "wecom-main", "--user", "a", "--wait", "0.1", "你好")
    assert code == 1
    assert out.splitlines() == ["等待发送 1", "  a：等待发送"]
