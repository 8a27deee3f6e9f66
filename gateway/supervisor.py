"""Keeps child processes running: starts them, restarts the dead within a second, for ever, and stops them all in time."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from config.errors import YizhanError
from config.logging import get_logger, log
from config.settings import child_environment
from gateway import up_texts
from gateway.prestart import death_signal

FATAL_EXIT = 2
"""A child ends with this when starting it again cannot help (usage, settings, a newer database)."""

STOP_S = 8.0
LAST_STOP_S = 1.5
_QUICK_S = 5.0
_IDLE_S, _BUSY_S = 1.0, 0.05
_LOG_BYTES = 20 * 1024 * 1024
_LOG_KEEP = 3
_logger = get_logger(__name__)


class AlreadyRunning(YizhanError):
    """Another supervisor works in this data folder."""

    code = "already_running"


@dataclass(slots=True)
class Child:
    """One process to keep alive. ``last`` marks what others depend on: it is stopped after them. Without its ``socket`` file
    a child is of no use and is started anew. ``process`` may be given: one that was started already."""

    name: str
    argv: Sequence[str]
    environ: dict[str, str] = field(default_factory=dict)
    last: bool = False
    socket: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    quick_exits: int = 0
    noted: bool = False
    """Whether the pid file tells of this process; on a full disk it cannot, and is tried again."""

    def unreachable(self) -> bool:
        """Whether its socket file is gone, so that nobody can connect."""
        return self.socket is not None and not self.socket.exists()


class Supervisor:
    """Runs children in one data folder, which it locks. Single-threaded; ``run`` blocks until a signal or ``stop()``."""

    def __init__(
        self,
        data_dir: Path,
        children: Sequence[Child],
        *,
        to_terminal: bool = False,
        may_mend: Callable[[], bool] = lambda: False,
    ) -> None:
        """``may_mend`` is asked when a child cannot run: True where somebody may be about to change that."""
        self._run = data_dir / "run"
        self._logs = data_dir / "logs"
        self.children = list(children)
        self.exit_code = 0
        self.gave_up: str | None = None
        """The child that said it cannot run."""
        self._to_terminal = to_terminal
        self._may_mend = may_mend
        self._stopping = False
        self._rotate_at = 0.0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._die_with_parent = death_signal()

    def run(self, poll: Callable[[], bool] | None = None) -> int:
        """Start everything and keep it running; ``poll`` is called every 50 ms until it returns True. Returns the exit code."""
        self._logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        previous = self._take_signals()
        try:
            while not self._stopping:
                self._look_after()
                if poll is not None and poll():
                    poll = None
                self._wait(_IDLE_S if poll is None and all(child.process for child in self.children) else _BUSY_S)
        finally:
            self._stop_all()
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)
        return self.exit_code

    def stop(self, exit_code: int = 0) -> None:
        """End ``run``: children are stopped in order, within ten seconds."""
        self._stopping = True
        self.exit_code = self.exit_code or exit_code

    # children ---------------------------------------------------------------------------------------------------------
    def _start(self, child: Child) -> None:
        output = self._open_log(child)
        try:
            child.process = subprocess.Popen(  # noqa: S603 -- the command lines are our own
                child.argv,
                env=child_environment(child.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=self._die_with_parent,  # safe: this process has one thread
            )
        except OSError as error:
            child.process, child.start_at = None, time.monotonic() + 1.0
            log(_logger, "child.not_started", 40, child=child.name, error=error)
            return
        finally:
            if output is not None:
                output.close()
        child.started_at = time.monotonic()
        child.noted = False

    def _open_log(self, child: Child) -> IO[bytes] | None:
        """Where the child's output goes; None is our own, which a full or read-only disk leaves us."""
        if self._to_terminal:
            return None
        try:
            return (self._logs / f"{child.name}.log").open("ab")
        except OSError as error:
            log(_logger, "child.no_log", 30, child=child.name, error=error)
            return None

    def _note(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        try:
            write_pid(self._run / f"{child.name}.pid", process.pid)
            child.noted = True
        except OSError as error:
            (self._run / f"{child.name}.pid").unlink(missing_ok=True)  # rather nothing than the pid of a dead process
            log(_logger, "child.not_noted", 30, child=child.name, error=error)

    def _look_after(self) -> None:
        now = time.monotonic()
        for child in self.children:
            if child.process is not None and child.process.poll() is not None:
                self._died(child, child.process.returncode, now)
            if child.process is None and now >= child.start_at and not self._stopping:
                self._start(child)
            if child.process is not None and not child.noted:
                self._note(child, child.process)
            if child.process is not None and now - child.started_at > _QUICK_S and child.unreachable():
                log(_logger, "child.unreachable", 40, child=child.name)
                child.process.terminate()
        if now >= self._rotate_at:
            self._rotate_at = now + 60
            for child in self.children:
                _rotate(self._logs / f"{child.name}.log")

    def _died(self, child: Child, code: int, now: float) -> None:
        child.process = None
        lived_s = now - child.started_at
        if code == FATAL_EXIT and not self._may_mend():
            log(_logger, "child.gave_up", 40, child=child.name, code=code)
            self.gave_up = child.name
            self.stop(1)
            return
        child.quick_exits = child.quick_exits + 1 if code >= 0 and lived_s < _QUICK_S else 0
        delay_s = restart_delay_s(child.quick_exits)
        child.start_at = now + delay_s
        log(_logger, "child.died", 30, child=child.name, code=code, lived_ms=int(lived_s * 1000), again_in_ms=int(delay_s * 1000))

    def _stop_all(self) -> None:
        first = [child for child in self.children if not child.last]
        last = [child for child in self.children if child.last]
        for group, limit_s in ((first, STOP_S), (last, LAST_STOP_S)):
            running = [child.process for child in group if child.process is not None]
            for process in running:
                process.terminate()
            deadline = time.monotonic() + limit_s
            for process in running:
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            for child in group:
                (self._run / f"{child.name}.pid").unlink(missing_ok=True)

    # signals ----------------------------------------------------------------------------------------------------------
    def _take_signals(self) -> dict[int, signal._HANDLER]:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        previous: dict[int, signal._HANDLER] = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            previous[number] = signal.signal(number, lambda _number, _frame: self.stop())
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        return previous

    def _wait(self, seconds: float) -> None:
        ready, _, _ = select.select([self._wake_read], [], [], seconds)
        if ready:
            os.read(self._wake_read, 4096)


def restart_delay_s(quick_exits: int) -> float:
    """Killed, or the first few failures: at once. A program that keeps failing by itself: up to 5 s, never never."""
    return 0.05 if quick_exits <= 1 else min(5.0, 0.1 * 2.0 ** (quick_exits - 1))


def lock_folder(data_dir: Path) -> int:
    """Take the data folder for this supervisor; returns the handle to keep open. Raises AlreadyRunning."""
    path = data_dir / "run" / "up.lock"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(handle, 32).decode("ascii", "replace").strip() or "?"
        os.close(handle)
        raise AlreadyRunning(up_texts.ALREADY_RUNNING.format(data_dir=data_dir, owner=owner)) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def write_pid(path: Path, pid: int) -> None:
    """Write a pid file in one step, so that a reader never sees half of it."""
    partial = path.with_suffix(".pid.new")
    partial.write_text(f"{pid}\n", "ascii")
    partial.replace(path)


def await_orphans(run: Path, names: Sequence[str], limit_s: float = 12.0) -> None:
    """Wait for children of a supervisor that was killed: they end by themselves and still hold ports. The pid files they
    left are removed."""
    deadline = time.monotonic() + limit_s
    for name in names:
        path = run / f"{name}.pid"
        while (pid := read_pid(path)) is not None and _is_ours(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        path.unlink(missing_ok=True)


def read_pid(path: Path) -> int | None:
    """The pid in a pid file, or None."""
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _is_ours(pid: int) -> bool:
    """Whether the pid is alive and not somebody else's reused number."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(word in words for word in (b"gateway.cli", b"scripts.simulator", b"valkey", b"redis"))


def _rotate(path: Path) -> None:
    """Copy and truncate a log that grew large; its writer appends, so it goes on at the new end."""
    try:
        if path.stat().st_size < _LOG_BYTES:
            return
    except OSError:
        return
    for number in range(_LOG_KEEP - 1, 0, -1):
        older = path.with_suffix(f".log.{number}")
        if older.exists():
            older.replace(path.with_suffix(f".log.{number + 1}"))
    try:
        shutil.copyfile(path, path.with_suffix(".log.1"))
    except OSError:  # the disk is full: what the log holds is worth less than the room it takes
        path.with_suffix(".log.1").unlink(missing_ok=True)
    os.truncate(path, 0)
