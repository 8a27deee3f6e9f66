"""The product as a person starts it: ``yizhan up --demo`` as processes, and a real browser to look at it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_READY_S = 120.0


@dataclass(frozen=True)
class Demo:
    """A running demo: the chat page's address with its token, the data folder, and the supervisor's process id."""

    url: str
    data_dir: Path
    pid: int = 0

    @property
    def base(self) -> str:
        """The simulator's address without path and token."""
        return self.url.split("/?")[0]

    @property
    def token(self) -> str:
        """The start-up token."""
        return self.url.split("token=")[1]


@contextlib.contextmanager
def running_demo(folder: Path) -> Iterator[Demo]:
    """``yizhan up --demo`` on free ports with its data in ``folder/data``; stopped with SIGTERM at the end."""
    out = folder / "out.txt"
    command = [sys.executable, "-m", "gateway.cli", "up", "--demo", "--data-dir", str(folder / "data")]
    command += ["--port", "0", "--admin-port", "0", "--sim-port", "0"]
    with out.open("w") as sink:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("YIZHAN_")}
        process = subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT, env=environ)
    try:
        yield Demo(_wait_ready(process, out), folder / "data", process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """A demo in an empty data folder, one a test module."""
    with tempfile.TemporaryDirectory(prefix="yzdemo") as name, running_demo(Path(name)) as running:
        yield running


def _wait_ready(process: subprocess.Popen[bytes], out: Path) -> str:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", out.read_text(encoding="utf-8"))
        if found:
            return found.group()
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"the demo did not become ready:\n{out.read_text(encoding='utf-8')}")
