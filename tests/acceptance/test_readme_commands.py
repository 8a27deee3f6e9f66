"""The commands that both READMEs print, typed as printed beside a running demo and in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Demo
from .stage import Stage

ENGLISH, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh-CN.md"))


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks: language and content."""
    return re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)


def commands(text: str) -> list[str]:
    """The lines of the bash blocks, continued ones joined."""
    joined = "".join(body.replace("\\\n", " ") for kind, body in blocks(text) if kind == "bash")
    return [" ".join(line.split()) for line in joined.splitlines() if line.strip()]


def inline(text: str) -> list[str]:
    """Complete commands named in sentences."""
    found = re.findall(r"`(?:\.venv/bin/)?(yizhan [^`]+|\./scripts/[^`]+|python -m scripts[^`]+)`", text)
    return sorted(set(found))


def examples(text: str) -> list[tuple[str, str]]:
    """The blocks without comments, which each language writes in its own words."""
    return [(kind, re.sub(r"\s*#.*", "", body)) for kind, body in blocks(text) if kind != "python"]


@pytest.fixture(scope="module")
def stage(demo: Demo) -> Stage:
    return Stage(demo)


def typed(line: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a printed line in bash, in a folder; ``yizhan`` is this checkout's."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("YIZHAN_")}
    script = f'yizhan() {{ {shlex.quote(sys.executable)} -m gateway.cli "$@"; }}\n{line}'
    env = {**plain, "PYTHONPATH": str(ROOT), **environ}
    command = ["bash", "-c", script]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False, input="")


def test_both_languages_print_the_same_commands() -> None:
    """Blocks, and commands named in sentences, word for word."""
    assert commands(ENGLISH) == commands(CHINESE)
    assert inline(ENGLISH) == inline(CHINESE)
    assert examples(ENGLISH) == examples(CHINESE)


def test_the_key_command_works_as_printed(stage: Stage) -> None:
    """In the demo: the key is printed once; for a tenant that is not there the answer says which ones are."""
    create = next(line for line in commands(ENGLISH) if line.startswith("yizhan keys"))
    told = typed(create, stage.demo.data_dir.parent)
    assert (told.returncode, told.stdout.strip().startswith("yzk_")) == (0, True), told.stderr
    unknown = typed(create.replace("default", "nobody"), stage.demo.data_dir.parent)
    assert unknown.returncode == 2
    assert "default" in unknown.stderr


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("yizhan push --account wecom-main --user zhangsan 连上了", "已"),
        ("yizhan usage", "用量"),
    ],
)
def test_operators_commands_as_printed(stage: Stage, line: str, part: str) -> None:
    """Typed in the folder the demo runs in, without any option: they find the demo."""
    assert any(line in found for found in (*inline(ENGLISH), *commands(ENGLISH))), "the README prints it"
    told = typed(line, stage.demo.data_dir.parent)
    assert told.returncode == 0, told.stdout + told.stderr
    assert part in told.stdout


def test_the_demo_in_a_terminal(stage: Stage) -> None:
    """``yizhan demo`` plays its scenes with the running demo: three accounts, questions and answers."""
    told = typed("yizhan demo", stage.demo.data_dir.parent)
    assert told.returncode == 0, told.stdout + told.stderr
    for part in ("企业微信", "已认证公众号", "未认证公众号", "即将执行", "已建待办", "检查完毕"):
        assert part in told.stdout


def test_the_first_settings_file(tmp_path: Path) -> None:
    """``yizhan init`` as printed writes a file once and never over another; doctor reads it and says what is missing."""
    line = next(line for line in commands(ENGLISH) if line.startswith("yizhan init"))
    made = typed(line, tmp_path)
    assert made.returncode == 0, made.stderr
    file = tmp_path / "yizhan.yaml"
    assert file.stat().st_mode & 0o077 == 0, "secrets go in there"
    before = file.read_bytes()
    again = typed(line, tmp_path)
    assert again.returncode != 0
    assert file.read_bytes() == before
    told = typed("yizhan doctor", tmp_path)
    assert told.returncode in (1, 2)
    assert "Traceback" not in told.stderr
    assert any("一" <= char <= "鿿" for char in told.stdout + told.stderr)


@pytest.mark.parametrize("line", [line for line in commands(ENGLISH) if line.startswith("docker compose")])
def test_compose_commands_are_well_formed(line: str) -> None:
    """The services they name exist; the containers themselves are not started here."""
    words = shlex.split(line)
    text = (ROOT / "compose.yaml").read_text("utf-8")
    for word in words:
        if "=" in word:
            assert f"\n  {word.split('=')[0]}:" in text
