"""``yizhan tools list|show|try`` as an operator uses it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway.cli import main

_SETTINGS = """
data_dir: {folder}
tenants:
  - id: acme
    roles: {{server_access: [{{account: wecom-main, user: cli}}]}}
    accounts:
      - id: wecom-main
        platform: wecom
        corp_id: ww0123456789abcdef
        agent_id: 1000002
        secret: s3cret
        callback_token: abc
        encoding_aes_key: abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG
    tools:
      disabled: [send_message]
      scripts:
        - id: hello
          description: 打招呼
          argv: ["{python}", "-c", "print('hello')"]
          read_only: true
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A migrated deployment's settings file."""
    path = tmp_path / "yizhan.yaml"
    path.write_text(_SETTINGS.format(folder=tmp_path / "data", python=sys.executable), "utf-8")
    assert main(["migrate", "--config", str(path)]) == 0
    return str(path)


def test_list_and_show(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What there is, who may use it, what it takes."""
    capsys.readouterr()
    assert main(["tools", "list", "--json", "--config", config]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["todo_create"] == {"name": "todo_create", "class": "operation", "confirms": True, "roles": []}
    assert rows["run_script"]["roles"] == ["server_access"]
    assert "send_message" not in rows
    assert main(["tools", "show", "todo_create", "--config", config]) == 0
    assert "操作，先确认" in capsys.readouterr().out
    assert main(["tools", "show", "nothing", "--config", config]) == 1
    assert main(["tools", "list", "--tenant", "nobody", "--config", config]) == 2


def test_try(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A read runs at once; a write asks at a terminal, is refused through a pipe, and runs with --yes."""
    capsys.readouterr()
    assert main(["tools", "try", "run_script", '{"preset":"hello"}', "--config", config]) == 0
    assert capsys.readouterr().out == "脚本「hello」在本机上运行完成。输出：\nhello\n"
    assert main(["tools", "try", "todo_create", '{"title":"周报"}', "--config", config]) == 1
    assert "这项已经取消，没有执行" in capsys.readouterr().out
    assert main(["tools", "try", "todo_create", '{"title":"周报"}', "--yes", "--config", config]) == 0
    assert capsys.readouterr().out.endswith("已建待办 #1：周报\n")
    assert main(["outbox", "list", "--config", config]) == 0
    assert capsys.readouterr().out == "发件箱是空的\n"  # told here, and to nobody else
    assert main(["tools", "try", "todo_create", '{"titel":"周报"}', "--config", config]) == 1
    assert "是不是“title”？" in capsys.readouterr().out
    assert main(["tools", "try", "run_script", '{"preset":"hello"}', "--user", "lisi", "--config", config]) == 1
    assert "没有使用「运行脚本」的权限" in capsys.readouterr().out
