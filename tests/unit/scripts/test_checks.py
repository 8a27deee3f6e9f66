"""The checks of names and sizes find what they forbid and leave the rest alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_names, check_sizes

ROOT = Path(__file__).resolve().parents[3]
HEAD = '"""One sentence."""\n'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("agent/utils.py", HEAD, "says nothing", id="banned-name"),
        pytest.param("agent/loop.py", "x = 1\n", "docstring", id="no-docstring"),
        pytest.param("agent/loop.py", '"""loop"""\n', "full sentence", id="no-sentence"),
        pytest.param("agent/loop.py", HEAD + "import os\nx = os.environ\n", "os.environ outside", id="environ"),
        pytest.param("agent/loop.py", HEAD + "from os import environ\n", "os.environ outside", id="environ-from"),
        pytest.param("agent/loop.py", HEAD + "from os import getenv as g\n", "os.getenv outside", id="getenv-from"),
        pytest.param("memory/dates.py", HEAD + "import datetime\nx = datetime.datetime.now()\n", "datetime.now", id="now"),
        pytest.param("memory/dates.py", HEAD + "from datetime import date\nx = date.today()\n", "date.today", id="today"),
        pytest.param("memory/dates.py", HEAD + "import time\nx = time.time\n", "time.time", id="time"),
        pytest.param("memory/dates.py", HEAD + "from time import time\n", "time.time", id="time-from"),
        pytest.param("tools/base.py", HEAD + "assert True\n", "assert is not validation", id="assert"),
        pytest.param("tools/base.py", HEAD + "try:\n    pass\nexcept:\n    pass\n", "bare except", id="bare-except"),
        pytest.param("gateway/app.py", HEAD + "print(1)\n", "print outside", id="print"),
    ],
)
def test_forbidden(name: str, text: str, said: str) -> None:
    """Overview 7.10 and 7.12: each forbidden thing is one finding with file and line."""
    found = check_names.problems(name, text)
    assert len(found) == 1
    assert found[0].startswith(f"{name}:")
    assert said in found[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config/settings.py", HEAD + "import os\nx = os.environ\n"),
        ("config/clock.py", HEAD + "import time\nx = time.time_ns()\n"),
        ("gateway/cli.py", HEAD + "print(1)\n"),
        ("gateway/cli_doctor.py", HEAD + "print(1)\n"),
        ("scripts/bench/floor.py", HEAD + "import time\nprint(time.time())\n"),
        ("tests/unit/test_x.py", HEAD + "assert True\n"),
        ("agent/loop.py", HEAD + "import time\nx = time.monotonic()\n"),
        ("tools/builtin/__init__.py", ""),
    ],
)
def test_allowed(name: str, text: str) -> None:
    """What has its place there is not a finding."""
    assert check_names.problems(name, text) == []


def test_sizes() -> None:
    """A file of 401 lines and a function of 61 lines are too long, one less is not."""
    path = Path("agent/loop.py")
    function = "def f():\n" + "    x = 1\n" * 60
    assert check_sizes.problems(path, HEAD + function) == ["agent/loop.py:2: f has 61 lines, the cap is 60"]
    assert check_sizes.problems(path, HEAD + "def f():\n" + "    x = 1\n" * 59) == []
    assert "401 lines" in check_sizes.problems(path, "x = 1\n" * 401)[0]
    assert check_sizes.problems(path, "x = 1\n" * 400) == []


@pytest.mark.parametrize("module", ["scripts.check_sizes", "scripts.check_names"])
def test_this_checkout_passes(module: str) -> None:
    """The commands that the test script runs succeed here."""
    done = subprocess.run([sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
