"""Every operators' command against servers that are away, with secrets in every address: none is printed (N-22)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.stack import free_ports

ROOT = Path(__file__).resolve().parents[2]
CANARY = "Canary"
COMMANDS = (
    ("serve",),
    ("worker",),
    ("migrate",),
    ("doctor",),
    ("trace", "zhangsan"),
    ("usage",),
    ("outbox", "list"),
    ("models", "check"),
    ("keys", "list"),
    ("tools", "list"),
    ("menu", "pull", "w"),
    ("connect", "w"),
)


def _settings(folder: Path, **changes: Any) -> Path:
    """Settings whose every server is a closed port and whose every secret is a canary."""
    (closed,) = free_ports(1)
    account = {
        "id": "w",
        "platform": "wecom",
        "corp_id": "ww0123456789abcdef",
        "agent_id": 1,
        "secret": "CanarySecret55555",
        "callback_token": "CanaryTok123",
        "encoding_aes_key": "CanaryAes0123456789012345678901234567890123",
        "api_base": f"http://127.0.0.1:{closed}",
        "proxy_url": f"http://u:CanaryProxyPw@127.0.0.1:{closed}",
    }
    follower_side = {
        **{key: account[key] for key in ("callback_token", "encoding_aes_key", "api_base", "proxy_url")},
        "id": "m",
        "platform": "mp",
        "app_id": "wx0123456789abcdef",
        "app_secret": "CanarySecret66666",
    }
    tenant = {
        "id": "acme",
        "operators": [{"account": "w", "user": "z"}],
        "alert_webhook": f"http://127.0.0.1:{closed}/cgi-bin/webhook/send?key=CanaryHookKey5",
        "accounts": [account, follower_side],
    }
    model = {"name": "q", "base_url": f"http://u:CanaryBasePw@127.0.0.1:{closed}/v1", "model": "m", "local": True}
    settings = {
        "data_dir": str(folder / "data"),
        "redis_url": f"redis://u:CanaryRedisPw@127.0.0.1:{closed}/0",
        "database_url": f"postgresql://u:CanaryDbPw@127.0.0.1:{closed}/x",
        "models": [{**model, "api_key": "CanaryModelKey22"}],
        "tenants": [tenant],
        **changes,
    }
    file = folder / "yizhan.yaml"
    file.write_text(yaml.safe_dump(settings), "utf-8")
    return file


def _environment() -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("YIZHAN_")}, "PYTHONPATH": str(ROOT)}


def test_n_22_no_command_prints_a_secret(tmp_path: Path) -> None:
    """N-22: whatever a command says of servers that are away, it says without passwords, keys, tokens and tracebacks."""
    file, where = _settings(tmp_path), {"cwd": tmp_path, "env": _environment(), "text": True}
    running: list[tuple[str, subprocess.Popen[str]]] = []
    for words in COMMANDS:
        command = [sys.executable, "-m", "gateway.cli", *words, "--config", str(file)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        running.append((" ".join(words), subprocess.Popen(command, **where, **pipes)))  # type: ignore[call-overload]
    said = {words: process.communicate(timeout=120)[0] for words, process in running}
    assert all(said.values()), said
    assert {words: text for words, text in said.items() if CANARY in text or "Traceback" in text} == {}


def test_n_22_a_gateway_without_redis_and_platform_logs_no_secret(tmp_path: Path) -> None:
    """N-22: a gateway that lives while its Redis, its platform and its proxy are away: its log tells of it without a secret."""
    http, admin = free_ports(2)
    file = _settings(tmp_path, database_url=None, http={"port": http}, admin={"port": admin}, log_level="DEBUG")
    command = [sys.executable, "-m", "gateway.cli", "serve", "--config", str(file)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=_environment(), stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while process.poll() is None:
            text = (tmp_path / "log").read_text("utf-8")
            if "token.failed" in text and "redis.away" in text:
                break
            assert time.monotonic() < end, text
            time.sleep(0.1)
        assert process.poll() is None, (tmp_path / "log").read_text("utf-8")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert CANARY not in (tmp_path / "log").read_text("utf-8")
