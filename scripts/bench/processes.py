"""Starts, measures and ends the processes of a benchmark: CPU seconds and memory from /proc."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
ROOT = Path(__file__).resolve().parents[2]


class NotReady(RuntimeError):
    """A process did not become ready in time; the message holds the end of its output."""


@dataclass(slots=True)
class Running:
    """One started process and the file its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def kill(self) -> None:
        """kill -9 and wait."""
        self.process.kill()
        self.process.wait()

    def stop(self, grace_s: float = 12.0, how: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, then SIGKILL for who does not go."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def tail(self, chars: int = 1500) -> str:
        """The end of its output."""
        return self.output.read_text(errors="replace")[-chars:] if self.output.exists() else ""


def start(name: str, command: list[str], folder: Path, environ: Mapping[str, str] | None = None) -> Running:
    """Start a process in a session of its own, its output in ``folder/name.log``."""
    output = folder / f"{name}.log"
    with output.open("ab") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**_clean_environment(), **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    return Running(name, process, output)


def _clean_environment() -> dict[str, str]:
    """Ours, less settings of the product and what would make every start compile all modules anew."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not (name.startswith("YIZHAN_") and not name.startswith("YIZHAN_BENCH_"))
    }


def yizhan(*arguments: str) -> list[str]:
    """The command line of a ``yizhan`` command of this checkout."""
    return [sys.executable, "-m", "gateway.cli", *arguments]


def free_port() -> int:
    """A loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(ready: Callable[[], bool], running: Running | None, what: str, limit_s: float = 30.0) -> float:
    """Poll until ``ready``; returns the seconds it took. Raises NotReady when the process ended or time is up."""
    begun = time.monotonic()
    while not ready():
        if running is not None and running.process.poll() is not None:
            raise NotReady(f"{what} ended with {running.process.returncode}\n{running.tail()}")
        if time.monotonic() - begun > limit_s:
            raise NotReady(f"{what} was not ready in {limit_s:.0f} s\n{running.tail() if running else ''}")
        time.sleep(0.01)
    return time.monotonic() - begun


def answers(url: str, timeout_s: float = 1.0) -> bool:
    """Whether a GET is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:  # noqa: S310 -- loopback URLs of our own making
            return int(response.status) == 200
    except (urllib.error.URLError, OSError):
        return False


def cpu_s(pids: Iterable[int]) -> float:
    """User and system CPU seconds of these processes and their living descendants."""
    total = 0
    for pid in _with_descendants(set(pids)):
        fields = _stat(pid)
        if fields:
            total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def rss_mb(pids: Iterable[int]) -> float:
    """Resident megabytes of these processes and their living descendants."""
    pages = 0
    for pid in _with_descendants(set(pids)):
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return round(pages * _PAGE / 1_048_576, 1)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state is 0, ppid 1, utime 11, stime 12."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _with_descendants(pids: set[int]) -> set[int]:
    parents = {int(entry.name): int((_stat(int(entry.name)) or ["", "0"])[1]) for entry in Path("/proc").glob("[0-9]*")}
    found = set(pids)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more
