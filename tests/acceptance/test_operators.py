"""An operator at the terminal of a running product: the README's commands, for real."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import ROOT, Demo

README = (ROOT / "README.md").read_text()


class Terminal:
    """A shell beside the running demo."""

    def __init__(self, demo: Demo, folder: Path) -> None:
        self.demo, self.folder = demo, folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith("YIZHAN_")}
        self.environ = clean | {"YIZHAN_DATA_DIR": str(demo.data_dir), "PYTHONPATH": str(ROOT)}
        ports = json.loads((demo.data_dir / "run" / "demo.json").read_text())
        self.http_port, self.admin_port = ports["http_port"], ports["admin_port"]

    def yizhan(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command, from a folder without a settings file: it finds the demo by its data folder."""
        command = [sys.executable, "-m", "gateway.cli", *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=120)

    def simulator(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """A control request of the simulator."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Cookie": f"sim_token={self.demo.token}"}
        request = urllib.request.Request(f"{self.demo.base}/_sim/{path}", data=data, headers=headers)  # noqa: S310 -- loopback
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    def until(self, found: Callable[[], Any], what: str, limit_s: float = 30.0) -> Any:
        """Poll until ``found`` gives something."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            value = found()
            if value:
                return value
            time.sleep(0.2)
        pytest.fail(f"{what} did not happen in {limit_s:.0f} s")


@pytest.fixture
def terminal(demo: Demo, tmp_path: Path) -> Terminal:
    """A terminal in an empty folder."""
    return Terminal(demo, tmp_path)


def test_doctor_finds_the_demo_healthy(terminal: Terminal) -> None:
    """Every account is read, the callback URL leads here with the same keys, the worker lives; exit code 0."""
    found = terminal.until(lambda: (done := terminal.yizhan("doctor")).returncode == 0 and done, "a healthy report", 60)
    for sentence in (
        "应用「驿站助手」读得到",
        "公众号接口可用",
        "能主动推送",
        "不能主动推送（未认证",
        "worker 在运行",
        "网关在运行",
    ):
        assert sentence in found.stdout
    assert found.stdout.count("回调地址从外面访问得到，由这里应答，Token 和密钥与设置一致") == 3


def test_trace_tells_the_story_of_a_message(terminal: Terminal) -> None:
    """Say something as a follower, then trace it by the platform's message id and by the person."""
    said = terminal.simulator("say", {"account": "mp-main", "user": "oTraceFollower01", "text": "帮助"})
    done = terminal.yizhan("trace", said["message_id"])
    assert done.returncode == 0, done.stderr
    assert "收到回调，验签解密通过，已落库；快速通道" in done.stdout
    assert "→ 已送到平台（在 HTTP 应答里）。" in done.stdout
    assert "新会话" not in done.stdout
    assert terminal.yizhan("trace", "oTraceFollower01", "--bodies").stdout.count("#") == 1
    assert terminal.yizhan("trace", "oNobodyAtAll").returncode == 1


def test_push_with_the_readmes_curl(terminal: Terminal) -> None:
    """A key is made, the curl example is sent as printed (address, tenant and user are the demo's), the person sees it once."""
    made = terminal.yizhan("keys", "create", "--tenant", "default", "--scope", "push")
    assert made.returncode == 0, made.stderr
    key = re.search(r"yzk_[A-Za-z0-9_-]+", made.stdout)
    assert key is not None
    (block,) = [text for text in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) if "curl" in text]
    line = block[block.index("curl") :].replace("127.0.0.1:8081", f"127.0.0.1:{terminal.admin_port}")
    environ = terminal.environ | {"YIZHAN_KEY": key.group()}
    for _ in range(2):
        sent = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, text=True, timeout=30)
        assert sent.returncode == 0, sent.stderr
        assert "error" not in json.loads(sent.stdout)
    path = "inbox?account=wecom-main&user=zhangsan"
    terminal.until(lambda: [e for e in terminal.simulator(path) if e["text"] == "部署完成"], "the push")
    assert sum(1 for entry in terminal.simulator(path) if entry["text"] == "部署完成") == 1
    assert key.group() not in terminal.yizhan("keys", "list").stdout
    pushed = terminal.yizhan("push", "--account", "wecom-main", "--user", "lisi", "--wait", "20", "连上了")
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert [e["text"] for e in terminal.simulator("inbox?account=wecom-main&user=lisi") if e["text"] == "连上了"] == ["连上了"]


def test_connect_sees_what_is_done(terminal: Terminal) -> None:
    """On the running demo everything but the first push of that account is ticked, or even that."""
    terminal.simulator("say", {"account": "wecom-main", "user": "zhangsan", "text": "状态"})
    done = terminal.yizhan("connect", "wecom-main", "--once")
    assert "[✓] 1. 服务在运行，外面访问得到" in done.stdout
    assert "[✓] 2. 在企业微信保存回调" in done.stdout
    assert "[✓] 3. 企业可信 IP" in done.stdout
    assert "[✓] 4. 收到第一条消息" in done.stdout


def test_menu_pull_and_publish(terminal: Terminal) -> None:
    """EVT-04: what the account shows is saved, changed, and set; a click on it is answered."""
    file = terminal.folder / "menu.yaml"
    assert terminal.yizhan("menu", "pull", "mp-main", str(file)).returncode == 0
    saved = yaml.safe_load(file.read_text())
    saved["menu"]["button"] = [{"type": "click", "name": "帮助", "key": "帮助"}]
    file.write_text(yaml.safe_dump(saved, allow_unicode=True))
    assert terminal.yizhan("menu", "publish", "mp-main", str(file)).returncode == 0
    (account,) = [a for a in terminal.simulator("state")["accounts"] if a["id"] == "mp-main"]
    assert account["menu"] == saved["menu"]
    clicked = {"account": "mp-main", "user": "oMenuFollower01", "event": "click", "key": "帮助"}
    assert terminal.simulator("event", clicked)["deliveries"][-1]["passive"]


@pytest.mark.parametrize(
    "line",
    ["outbox list", "usage", "usage --json", "models list", "tools list", "keys list", "migrate", "doctor --json wecom-main"],
)
def test_the_other_commands_run(terminal: Terminal, line: str) -> None:
    """Each of them works beside the running product and says something."""
    done = terminal.yizhan(*shlex.split(line))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


def test_endpoints_of_an_operator(terminal: Terminal) -> None:
    """Health on both addresses, readiness and metrics on the admin one only."""
    pages = {}
    for port, path in ((terminal.http_port, "healthz"), (terminal.admin_port, "readyz"), (terminal.admin_port, "metrics")):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            pages[path] = answer.read().decode()
    assert "yizhan_callbacks" in pages["metrics"]
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{terminal.http_port}/metrics", timeout=10)
