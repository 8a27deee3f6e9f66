"""Starts the gateway's interpreter before the settings are even read, so that its imports overlap with everything else."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_PR_SET_PDEATHSIG = 1
OPTION = "--prestart"


def death_signal() -> Callable[[], None] | None:
    """What a child does before exec, so that it ends when its parent ends, even by kill -9 (Linux only)."""
    if sys.platform != "linux":
        return None
    library, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


class Prestarted:
    """A ``serve`` process that has begun to load its modules and waits to be told its settings."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = time.monotonic()
        try:
            self.process = subprocess.Popen(  # noqa: S603 -- our own command line
                [sys.executable, "-m", "gateway.cli", "serve", OPTION],
                stdin=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=death_signal(),  # safe: this process has one thread
            )
        except OSError:
            return

    def release(self, environ: Mapping[str, str], config: Path | None, log: Path | None) -> subprocess.Popen[bytes] | None:
        """Tell it to go on with these settings and write to ``log``; None when it is not there any more."""
        process = self.process
        if process is None or process.stdin is None or process.poll() is not None:
            return None
        told = {
            "environ": dict(environ),
            "config": None if config is None else str(config),
            "log": None if log is None else str(log),
        }
        try:
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.close()
        except OSError:
            return None
        self.process = None
        return process

    def end(self) -> None:
        """Nothing will be told: let it go."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stdin is not None:
                self.process.stdin.close()


def wait_for_settings() -> dict[str, object] | None:
    """In the prestarted process: what ``release`` told, with output going to the log from now on; None: end quietly."""
    line = sys.stdin.readline()
    if not line:
        return None
    told: dict[str, object] = json.loads(line)
    if isinstance(told["log"], str):
        handle = os.open(told["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.close(handle)
    return told
