"""The two commands and the lock files: they are well formed and name no place of this workplace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("requirements.lock", "requirements-dev.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_lock_has_hashes_and_no_index(name: str) -> None:
    """Every requirement is pinned with hashes; no line names an index, a link or a host."""
    text = (ROOT / name).read_text()
    requirements = re.split(r"\n(?=[A-Za-z0-9])", text)
    assert len(requirements) > 40
    for requirement in requirements:
        assert re.match(r"[A-Za-z0-9_.-]+(\[[a-z,-]+\])?==[0-9][^\s]*", requirement), requirement[:80]
        assert "--hash=sha256:" in requirement, requirement[:80]
    assert not re.search(r"://|--index-url|--extra-index-url|--find-links|--trusted-host", text)


def test_development_lock_agrees_with_the_runtime_lock() -> None:
    """The same versions in both, so that what is tested is what runs."""
    runtime, development = (
        dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (ROOT / name).read_text(), flags=re.MULTILINE)) for name in LOCKS
    )
    assert {name: development.get(name) for name in runtime} == runtime


@pytest.mark.parametrize("name", ["scripts/run", "scripts/test", "scripts/lock", "scripts/environment.sh", ".ci/run"])
def test_shell_scripts_parse(name: str) -> None:
    """bash accepts the script, and commands are executable."""
    done = subprocess.run(["bash", "-n", str(ROOT / name)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert name.endswith(".sh") or os.access(ROOT / name, os.X_OK)


def test_no_python_is_said_clearly(tmp_path: Path) -> None:
    """Without Python 3.11 the command says what to install and exits with 1."""
    (tmp_path / "scripts").mkdir()
    for name in ("run", "environment.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts" / name)
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname", "cmp", "id", "rm"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    done = subprocess.run(
        [str(shutil.which("bash")), str(tmp_path / "scripts" / "run")],
        env={"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 1
    assert "no Python 3.11 or newer found" in done.stderr


def test_locks_hold_every_dependency() -> None:
    """A dependency added to pyproject.toml without ``scripts/lock`` fails here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    runtime = [*project["dependencies"], *extras["embedded"], *extras["postgres"], *extras["build"]]
    for name, wanted in (("requirements.lock", runtime), ("requirements-dev.lock", [*runtime, *extras["dev"]])):
        locked = {
            found.lower().replace("_", "-") for found in re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / name).read_text(), re.M)
        }
        names = {re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0].lower().replace("_", "-") for line in wanted}
        assert names - locked == set()
