"""What lies on the disk and what is not kept: N-19 and N-23 for processes started one by one."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from config.schema import Settings
from gateway import embedded
from gateway.jobs import JOB_FUNCTIONS
from gateway.queue import ENTRY
from scripts.simulator.wirelog import CALLS_CAP, EXCHANGES_CAP, FEED_CAP, WireLog
from tests.stack import Stack, free_ports

ROOT = Path(__file__).resolve().parents[2]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_n_19_a_gateway_makes_an_open_data_folder_private(tmp_path: Path, valkey: str) -> None:
    """N-19: ``yizhan serve`` in a folder that everybody may read makes it 0700; nothing readable by others is inside."""
    data, (http, admin) = tmp_path / "data", free_ports(2)
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    settings = {"data_dir": str(data), "redis_url": valkey, "http": {"port": http}, "admin": {"port": admin}}
    file = tmp_path / "yizhan.yaml"
    file.write_text(yaml.safe_dump(settings), "utf-8")
    command = [sys.executable, "-m", "gateway.cli"]
    subprocess.run([*command, "migrate", "--config", str(file)], cwd=ROOT, check=True, capture_output=True)
    process = subprocess.Popen([*command, "serve", "--config", str(file)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while process.poll() is None and "serve.ready" not in (process.stderr.readline() if process.stderr else ""):
            assert time.monotonic() < end
        assert process.poll() is None
        assert _mode(data) == 0o700
        for path in data.iterdir():
            assert _mode(path) & 0o077 == 0 or path.name.endswith((".db-wal", ".db-shm", ".lock")), path
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def test_n_19_another_users_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-19: a data folder or socket folder that belongs to somebody else is not used."""
    from config.errors import SettingsError

    monkeypatch.setattr("os.getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(SettingsError, match="属于别的用户"):
        embedded.private_folder(tmp_path)


def test_n_19_jobs_are_a_fixed_table_of_functions() -> None:
    """N-19: the table's names are known, its entries are our own functions, and a wake-up names one entry point."""
    assert set(JOB_FUNCTIONS) >= {"doctor", "action"}
    assert all(asyncio.iscoroutinefunction(function) for function in JOB_FUNCTIONS.values())
    assert {function.__module__ for function in JOB_FUNCTIONS.values()} == {"gateway.jobs"}
    assert ENTRY == "gateway.worker.run_entry"


def test_n_23_readiness_metrics_and_apis_listen_on_loopback_by_default() -> None:
    """N-23: without a setting both addresses are loopback, and they are two."""
    settings = Settings()
    assert (settings.http.host, settings.admin.host) == ("127.0.0.1", "127.0.0.1")
    assert settings.http.port != settings.admin.port


def test_n_23_the_wire_log_is_capped() -> None:
    """N-23: calls, exchanges and the feed keep the newest only."""
    log = WireLog()
    for number in range(max(CALLS_CAP, FEED_CAP, EXCHANGES_CAP) + 10):
        log.add_call({"path": "x"})
        log.add_exchange({"id": str(number)})
        log.add_feed({"who": "me"})
    assert (len(log.calls), len(log.exchanges), len(log.feed)) == (CALLS_CAP, EXCHANGES_CAP, FEED_CAP)


async def test_n_23_the_wire_log_is_in_memory_only(stack: Stack) -> None:
    """N-23: what the simulator saw of a message that never reached the gateway is in its log and in no file."""
    await stack.post("faults", name="callback_refused", account="wecom-main")
    await stack.say("wecom-main", "zhangsan", "只在内存里的话")
    assert "只在内存里的话" in str(await stack.get("exchanges", account="wecom-main"))
    for path in stack.settings.data_dir.rglob("*"):
        if path.is_file():
            assert "只在内存里的话".encode() not in path.read_bytes(), path
