"""Throwaway stores of a benchmark: a Valkey on a unix socket, a PostgreSQL on loopback as a plain user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.embedded import answers, find_engine, prepare, socket_path
from scripts.bench.processes import Running, free_port, start, wait_until


@contextmanager
def valkey(folder: Path) -> Iterator[Running]:
    """A Valkey of this run, with the product's own options; its socket is ``url_of(folder)``."""
    running = start_valkey(folder)
    try:
        yield running
    finally:
        running.stop(5)


def start_valkey(folder: Path) -> Running:
    """Start (again) the Valkey of this folder and wait for it."""
    running = start("valkey", prepare(folder, find_engine()), folder)
    wait_until(lambda: answers(socket_path(folder)), running, "Valkey", 15)
    return running


def url_of(folder: Path) -> str:
    """The Redis URL of ``valkey(folder)``."""
    return f"unix://{socket_path(folder)}?db=0"


@contextmanager
def postgres(folder: Path) -> Iterator[tuple[Running, str] | None]:
    """A PostgreSQL of this run with its own durability settings, or None where there is none: (server, URL)."""
    programs, who = _programs(), _plain_user()
    if programs is None or who is None:
        yield None
        return
    home = folder / "postgres"
    home.mkdir()
    if who:
        for path in (folder, *folder.parents):
            if not os.access(path, os.X_OK) or path.stat().st_uid != 0 or path == path.parent:
                break
            if path.stat().st_mode & 0o011 == 0 and path.name.startswith("yzb"):
                path.chmod(0o711)
        os.chown(home, who["user"], who["group"])
    init = [str(programs / "initdb"), "-D", str(home / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]
    subprocess.run(init, check=True, capture_output=True, cwd="/", **who)
    port = free_port()
    command = [str(programs / "postgres"), "-D", str(home / "data"), "-h", "127.0.0.1", "-p", str(port), "-k", str(home)]
    command += ["-c", "max_connections=80", "-c", "shared_buffers=256MB"]
    with (folder / "postgres.log").open("ab") as output:
        process = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, **who)
    running = Running("postgres", process, folder / "postgres.log")
    try:
        wait_until(lambda: _ready(programs, port), running, "PostgreSQL", 30)
        yield running, f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(2)  # fast shutdown
        running.stop(10)


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(4))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _plain_user() -> dict[str, Any] | None:
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return None


def _ready(programs: Path, port: int) -> bool:
    check = subprocess.run([str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)], check=False)
    return check.returncode == 0
