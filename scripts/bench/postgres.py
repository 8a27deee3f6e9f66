"""A throwaway PostgreSQL on loopback in a folder of its own, run by a plain user; for benchmarks and tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from scripts.bench.processes import Running, free_port, wait_until

FAST = signal.SIGINT
"""PostgreSQL's fast shutdown: it does not wait for its clients."""

_START_S = 30.0


class NoPostgres(RuntimeError):
    """There is none to be had on this machine; the message says why."""


class Postgres:
    """One server with trust for its user ``postgres``. Use as a context manager, which starts and removes it."""

    def __init__(self, *options: str, sync: bool = True) -> None:
        """``options`` are settings such as ``max_connections=60``; ``sync`` False does without the disk.

        Raises NoPostgres.
        """
        self.programs = find_programs()
        self._who = _plain_user()
        self.port = free_port()
        self._options = [word for option in options for word in ("-c", option)]
        if not sync:
            self._options += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self._folder = Path(tempfile.mkdtemp(prefix="yzp"))
        self._log = self._folder / "server.log"
        if self._who:
            os.chown(self._folder, self._who["user"], self._who["group"])
        init = [str(self.programs / "initdb"), "-D", str(self._folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        done = self._run([*init, "--locale=C", *([] if sync else ["--no-sync"])])
        if done.returncode != 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise NoPostgres(f"initdb failed: {done.stderr.decode(errors='replace')[-200:]}")
        self.running: Running | None = None

    def __enter__(self) -> Postgres:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    @property
    def pid(self) -> int:
        """The postmaster's, 0 while it is stopped."""
        return 0 if self.running is None else self.running.pid

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, again after ``stop``, and wait until it takes connections."""
        self.start_soon()
        wait_until(self.ready, self.running, "PostgreSQL", _START_S)

    def start_soon(self) -> None:
        """Start the server without waiting."""
        command = [str(self.programs / "postgres"), "-D", str(self._folder / "data"), "-h", "127.0.0.1", "-p", str(self.port)]
        command += ["-k", str(self._folder), *self._options]
        with self._log.open("ab") as output:
            process = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, **self._who)
        self.running = Running("postgres", process, self._log)

    def stop(self, how: signal.Signals = FAST) -> None:
        """End the server and wait; its data stays."""
        if self.running is not None:
            self.running.stop(10, how)

    def remove(self) -> None:
        """End the server and remove its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def ready(self) -> bool:
        """Whether it takes connections."""
        return self._run([str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]).returncode == 0

    def create(self, database: str) -> str:
        """Make an empty database; returns its URL."""
        self._client("createdb", database).check_returncode()
        return self.url_of(database)

    def drop(self, database: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._client("dropdb", "--force", "--if-exists", database)

    def _client(self, program: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        return subprocess.run([str(self.programs / program), *where, *words], capture_output=True, check=False)

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, capture_output=True, check=False, cwd="/", **self._who)


def find_programs() -> Path:
    """The folder of the newest PostgreSQL's programs. Raises NoPostgres."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise NoPostgres("no PostgreSQL on this machine (initdb not found on PATH or in /usr/lib/postgresql)")
    return Path(on_path).resolve().parent


def _plain_user() -> dict[str, Any]:
    """Arguments for subprocess that leave root, which PostgreSQL refuses; empty when we are nobody special."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise NoPostgres("PostgreSQL refuses to run as root and there is no user postgres or nobody here")
