"""Scripts, files, logs, servers: programs and files for real."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from config.schema import (
    Host,
    LogSource,
    ScriptArgument,
    ScriptPreset,
    ToolSettings,
)
from tests.integration.tools.office import Office
from tools.base import OutcomeUnknown, ToolFailed
from tools.builtin.server_status import Usage, status_sentence
from tools.process import Ran, run_on, ssh_argv


def preset(**changes: Any) -> ScriptPreset:
    """A program that prints its arguments."""
    code = "import sys; print(sys.argv[1:])"
    values = {"id": "show", "description": "显示参数", "argv": (sys.executable, "-c", code, "{word}", "x={word}")}
    return ScriptPreset(**{**values, "arguments": {"word": ScriptArgument(pattern=r"[\s\S]*")}, "read_only": True, **changes})


async def test_scripts(tmp_path: Path, database: Any) -> None:
    """S001-47 N-20: an argv, never a shell; read-only ones run at once, others ask; arguments are typed."""
    office = Office(tmp_path, database, ToolSettings(scripts=(preset(), preset(id="change", read_only=False, risk="high"))))
    said = (await office.call("run_script", preset="show", arguments={"word": "a; touch /tmp/x $(id)"})).summary
    assert said == "脚本「show」在本机上运行完成。输出：\n['a; touch /tmp/x $(id)', 'x=a; touch /tmp/x $(id)']"
    change = await office.call("run_script", preset="change", arguments={"word": "a"})
    assert change.prompt is not None
    assert "高风险操作" in change.prompt.text
    for bad in ("-rf", "--help", "a\nb", "a\u202eb"):
        outcome = await office.call("run_script", preset="show", arguments={"word": bad})
        assert outcome.summary == "参数“word”不能以减号开头，也不能有控制字符。"
    assert (await office.call("run_script", preset="show", arguments={"word": "a", "more": 1})).status == "invalid"
    assert (await office.call("run_script", preset="show")).status == "invalid"
    assert (await office.call("run_script", preset="rm")).status == "invalid"
    assert (await office.call("run_script", office.context("lisi"), preset="show", arguments={"word": "a"})).status == "denied"


def test_ssh_never_asks_and_quotes_every_word() -> None:
    """N-20: known host keys only, no prompt, options end before the address, the remote shell sees one word a word."""
    host = Host(id="web-1", address="10.0.0.11", user="ops", port=2222, identity_file=Path("/keys/id"))
    argv = ssh_argv(host, ["show", "a; rm -rf /", "$(id)"])
    assert argv[:3] == ["ssh", "-o", "BatchMode=yes"]
    assert "StrictHostKeyChecking=yes" in argv
    assert argv[-3:] == ["--", "10.0.0.11", "show 'a; rm -rf /' '$(id)'"]


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("ssh: connect to host 10.0.0.11 port 22: Connection refused\r\n", ToolFailed),
        ("Host key verification failed.\r\n", ToolFailed),
        ("ops@10.0.0.11: Permission denied (publickey).\r\n", ToolFailed),
        ("restarting...\nclient_loop: send disconnect: Broken pipe\r\n", OutcomeUnknown),
        ("Connection to 10.0.0.11 closed by remote host.\r\n", OutcomeUnknown),
        ("restarting...\nssh: inner\n", OutcomeUnknown),
        ("", OutcomeUnknown),
    ],
)
async def test_a_cut_ssh_connection_is_unknown(output: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """N-27: only an ssh that never got there did nothing; the other end may have run it."""

    async def ended(argv: Any, *, timeout_s: float) -> Ran:
        return Ran(255, output)

    monkeypatch.setattr("tools.process.run_local", ended)
    with pytest.raises(error) as raised:
        await run_on(Host(id="web-1", address="10.0.0.11"), ["restart"], timeout_s=1)
    assert getattr(raised.value, "user_text", "") == "连不上 web-1（ssh）。"


async def test_a_script_that_hangs_is_killed(tmp_path: Path, database: Any) -> None:
    """Its time is over, and so is everything it started."""
    slow = preset(argv=(sys.executable, "-c", "import time; time.sleep(60)"), arguments={}, timeout_s=0.3)
    office = Office(tmp_path, database, ToolSettings(scripts=(slow,)))
    outcome = await office.call("run_script", preset="show")
    assert (outcome.status, outcome.summary) == ("failed", "「运行脚本 show」没有成功：超时没有结果")


async def test_files_in_batches(office: Office, tmp_path: Path) -> None:
    """S001-47: list and pack; only plain files of the folder, whatever the pattern."""
    folder = tmp_path / "files" / "acme"
    folder.mkdir(parents=True)
    for name in ("a.csv", "b.csv", ".hidden.csv"):
        (folder / name).write_text("x" * 2048, "ascii")
    (folder / "link.csv").symlink_to("/etc/passwd")
    assert (await office.call("files_list", pattern="*.csv")).summary == "有 2 个文件符合“*.csv”，共 4.0 KB。a.csv、b.csv"
    said = await office.do("files_archive", pattern="*.csv")
    archive = next(folder.glob("archive-*.zip"))
    assert said == f"已把 2 个文件打包为 {archive.name}。"
    assert zipfile.ZipFile(archive).namelist() == ["a.csv", "b.csv"]
    for pattern in ("../*", "/etc/*", ".*", "-rf", ""):
        assert (await office.call("files_list", pattern=pattern)).status == "invalid"


async def test_log_query(tmp_path: Path, database: Any) -> None:
    """The newest lines; secrets in them are masked; the model gets a sentence, the audit the lines."""
    path = tmp_path / "app.log"
    path.write_text("".join(f"line {n}\n" for n in range(300)) + "ERROR token=abcdef123456 failed\n", "utf-8")
    office = Office(tmp_path, database, ToolSettings(logs=(LogSource(id="app", description="应用", path=path),)))
    outcome = await office.call("log_query", source="app", keyword="error", tail=100)
    assert outcome.summary == "日志「app」最近 100 行中有 1 行包含“error”。最近的：\nERROR token=*** failed"


async def test_server_status(office: Office) -> None:
    """S001-45 S001-52: one unambiguous sentence."""
    assert status_sentence("A", Usage(92, 85, 90)) == (
        "服务器A的CPU使用率为92%，内存使用率为85%，磁盘使用率为90%，均超过80%告警阈值。"
    )
    assert status_sentence("A", Usage(92, 85, 40)) == (
        "服务器A的CPU使用率为92%，内存使用率为85%，磁盘使用率为40%，其中CPU、内存超过80%告警阈值。"
    )
    assert status_sentence("A", Usage(10, 20, 30)).endswith("均未超过80%告警阈值。")
    assert "CPU使用率为" in (await office.call("server_status")).summary
