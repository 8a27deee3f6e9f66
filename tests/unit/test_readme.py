"""The README's commands and examples are what the product takes: parsed, and where cheap run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.schema import Settings
from gateway.cli import COMMANDS, main
from scripts.bench.__main__ import BENCHES
from scripts.bench.__main__ import main as bench
from tools.base import Tool
from tools.schema import compile_schema

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = [(kind, text) for kind, text in re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)]


def _shell_lines() -> list[str]:
    """The commands of the bash blocks, continued lines joined."""
    joined = [text.replace("\\\n", " ") for kind, text in BLOCKS if kind == "bash"]
    return [line.strip() for text in joined for line in text.splitlines() if line.strip()]


YIZHAN = [line for line in _shell_lines() if line.startswith("yizhan ")]
INLINE = re.findall(r"`yizhan (\w+)", README)


@pytest.mark.parametrize("line", YIZHAN)
def test_options_exist(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option of a shown command is in that command's help."""
    words = shlex.split(line)[1:]
    with pytest.raises(SystemExit) as ended:
        main([*_command(words), "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert [word for word in words if word.startswith("--") and word not in told] == []


def _command(words: list[str]) -> list[str]:
    """The command and its subcommand, without arguments."""
    return words[:2] if words[0] in ("keys", "menu", "models", "outbox", "tools") else words[:1]


def test_commands_named_in_the_text_exist() -> None:
    """No sentence speaks of a command that is not there."""
    assert INLINE
    assert set(INLINE) <= set(COMMANDS)


def test_actions_named_in_the_table_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """``yizhan outbox list|retry|drop`` in the table means three actions of that command."""
    rows = re.findall(r"\| `yizhan (\w+) ([a-z]+(?:\\\|[a-z]+)+)", README)
    assert {command for command, _ in rows} == {"outbox", "keys", "menu", "models", "tools"}
    for command, actions in rows:
        for action in actions.split("\\|"):
            with pytest.raises(SystemExit) as ended:
                main([command, action, "--help"])
            assert ended.value.code == 0, f"{command} {action}"
    capsys.readouterr()


def test_no_example_sets_what_the_commands_would_read_as_a_setting() -> None:
    """YIZHAN_ begins the settings' variables: a shell variable of an example that began so would stop every command."""
    assert [line for line in _shell_lines() if "YIZHAN_" in line] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``yizhan COMMAND --help`` works and takes --config."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: yizhan")


def test_benchmarks_named_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Each benchmark the README names is listed, and each one listed is there."""
    assert set(re.findall(r"scripts\.bench (\w+)", README)) - {"NAME"} <= set(BENCHES)
    assert bench(["--help"]) == 0
    assert bench(["nonsense"]) == 2
    assert all((ROOT / "scripts" / "bench" / f"{name}.py").exists() for name in BENCHES)
    capsys.readouterr()


def test_settings_shown_load() -> None:
    """The YAML of the README is accepted by the settings."""
    for kind, text in BLOCKS:
        if kind == "yaml":
            Settings.model_validate(yaml.safe_load(text.replace("${QWEN_KEY}", "key")))


def test_push_example_is_a_valid_request() -> None:
    """The body of the curl example is what the push API takes."""
    from gateway.push_request import PushRequest

    (line,) = [line for line in _shell_lines() if line.startswith("curl ")]
    words = shlex.split(line)
    body: dict[str, Any] = json.loads(words[words.index("-d") + 1])
    assert PushRequest.model_validate(body).idempotency_key == "deploy-421"


async def test_the_tool_example_works() -> None:
    """ "Add a tool in five minutes": the code as printed makes two tools, one that runs and one that asks first."""
    (code,) = [text for kind, text in BLOCKS if kind == "python"]
    made: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "README.md", "exec"), made)  # noqa: S102 -- the README's own example
    found = {name: value for name, value in made.items() if isinstance(value, Tool)}
    assert sorted(found) == ["book_room", "office_hours"]
    assert found["office_hours"].description == "Tell when the office is open."
    assert found["office_hours"].labels == {"day": "星期几"}
    assert found["book_room"].labels == {"room": "会议室", "hours": "小时数"}
    assert not found["office_hours"].needs_confirmation
    assert found["book_room"].needs_confirmation
    assert compile_schema(found["book_room"].parameters).check({"room": "A", "hours": 2}) == []
    assert compile_schema(found["book_room"].parameters).check({"hours": "x"}) != []
    nowhere: Any = None
    assert (await found["office_hours"].run(nowhere, {"day": "周六"})).summary == "周六：10:00 到 16:00"


@pytest.mark.parametrize("line", [line for line in _shell_lines() if line.startswith("./scripts/")])
def test_scripts_shown_exist(line: str) -> None:
    """Each script is there, executable and valid bash."""
    script = ROOT / shlex.split(line)[0]
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(script)], check=False, timeout=20).returncode == 0
