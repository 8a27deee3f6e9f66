"""`yizhan up --demo` as a newcomer runs it: ready, a first answer, killed processes that come back, an orderly end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.supervisor import read_pid

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("valkey", "serve", "worker", "simulator")


@dataclass
class Demo:
    """A running demo in its own processes."""

    folder: Path
    process: subprocess.Popen[str]
    output: Path

    @property
    def ports(self) -> dict[str, int]:
        found: dict[str, int] = json.loads((self.folder / "run" / "demo.json").read_text())
        return found

    def pid(self, name: str) -> int | None:
        return read_pid(self.folder / "run" / f"{name}.pid")

    def call(self, port: int, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        token = (self.folder / "run" / "simulator.token").read_text()
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"X-Sim-Token": token})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def say(self, text: str, account: str = "wecom-main", user: str = "zhangsan") -> dict[str, Any]:
        body = {"account": account, "user": user, "text": text}
        said: dict[str, Any] = json.loads(self.call(self.ports["sim_port"], "POST", "/_sim/say", body)[1])
        return said

    def inbox(self, account: str = "wecom-main", user: str = "zhangsan") -> list[str]:
        found = json.loads(self.call(self.ports["sim_port"], "GET", f"/_sim/inbox?account={account}&user={user}&after=0")[1])
        return [item["text"] for item in (found["messages"] if isinstance(found, dict) else found)]

    def ready(self) -> bool:
        try:
            return self.call(self.ports["admin_port"], "GET", "/readyz")[0] == 200
        except OSError:
            return False


def wait(condition: Callable[[], Any], limit_s: float = 30.0) -> float:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < limit_s, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - started


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gateway.cli", *words]


def environment() -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("YIZHAN_")}, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    output = folder / "output"
    words = ["up", "--demo", "--data-dir", str(folder / "data"), "--port", "0", "--admin-port", "0", "--sim-port", "0"]
    with output.open("w") as file:
        process = subprocess.Popen(command(*words), stdout=file, stderr=file, cwd=folder, env=environment(), text=True)
    started = Demo(folder / "data", process, output)
    try:
        wait(lambda: "ready" in output.read_text("utf-8") or process.poll() is not None, 60)
        assert process.poll() is None, output.read_text("utf-8")
        yield started
    finally:
        process.terminate()
        process.wait(15)


def test_it_says_ready_and_where_to_chat(demo: Demo) -> None:
    text = demo.output.read_text("utf-8")
    assert "驿站已就绪（ready）" in text
    assert f"http://127.0.0.1:{demo.ports['sim_port']}/?token=" in text


def test_everything_is_private_and_on_loopback(demo: Demo) -> None:
    """N-19, N-23: the data folder is 0700; nothing listens on another address."""
    assert demo.folder.stat().st_mode & 0o777 == 0o700
    assert (demo.folder / "run").stat().st_mode & 0o777 == 0o700
    addresses = {line.split()[1].split(":")[0] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if " 0A " in line}
    assert addresses
    with socket.socket() as probe:
        probe.settimeout(1)
        own = socket.gethostbyname(socket.gethostname())
        if not own.startswith("127."):
            assert probe.connect_ex((own, demo.ports["http_port"])) != 0


def test_a_first_message_is_answered_at_once(demo: Demo) -> None:
    said = demo.say("帮助")
    assert "状态" in said["deliveries"][0]["passive"]
    assert said["deliveries"][0]["attempt"] == 1


def test_a_job_runs_in_the_worker_and_its_report_is_pushed(demo: Demo) -> None:
    """「诊断」 from an operator: a receipt at once, the report pushed to the same person."""
    assert demo.say("诊断")["deliveries"][0]["passive"] == "好的，正在处理，完成后通知你。"
    wait(lambda: any("检查完毕" in (text or "") or "问题" in (text or "") for text in demo.inbox()))


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_process_is_back_within_a_second(demo: Demo, name: str) -> None:
    """kill -9 of any process: a new one within 1 s, and the next message is answered."""
    wait(demo.ready)
    before = demo.pid(name)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert wait(lambda: demo.pid(name) not in (None, before), 5) < 1.0
    wait(demo.ready)
    if name == "simulator":
        wait(lambda: _listening(demo.ports["sim_port"]))
    assert "状态" in (demo.say("帮助")["deliveries"][-1]["passive"] or "")


def test_the_terminal_demo_plays_its_scenes(demo: Demo) -> None:
    """`yizhan demo` finds the running demo and plays: an answer at once, a confirmed to-do, a pushed report."""
    wait(demo.ready)
    words = ["demo", "--data-dir", str(demo.folder)]
    done = subprocess.run(command(*words), capture_output=True, text=True, env=environment(), cwd=demo.folder.parent)
    assert done.returncode == 0, done.stderr
    assert "演示没有在运行" not in done.stdout
    for part in ("企业微信自建应用：张三", "被动回复", "主动推送", "已建待办 #", "未认证公众号", "演示结束"):
        assert part in done.stdout


def test_a_second_one_in_the_same_folder_is_refused(demo: Demo) -> None:
    words = ["up", "--demo", "--data-dir", str(demo.folder), "--port", "0", "--admin-port", "0", "--sim-port", "0"]
    done = subprocess.run(command(*words), capture_output=True, text=True, env=environment(), cwd=demo.folder.parent)
    assert done.returncode == 1
    assert "已经有一个 yizhan up 在运行" in done.stderr


def test_n_23_the_demo_is_refused_with_real_accounts(tmp_path: Path) -> None:
    """N-23: real accounts in the settings and --demo do not go together."""
    account = {"id": "real", "platform": "wecom", "corp_id": "ww1111111111111111", "agent_id": 1, "secret": "s3cret"}
    account |= {"callback_token": "t", "encoding_aes_key": "a" * 43}
    file = tmp_path / "yizhan.yaml"
    file.write_text(json.dumps({"tenants": [{"accounts": [account]}]}))
    words = ["up", "--demo", "--config", str(file)]
    done = subprocess.run(command(*words), capture_output=True, text=True, env=environment(), cwd=tmp_path)
    assert done.returncode == 2
    assert "账号 real：演示不接真实账号" in done.stderr
    assert "s3cret" not in done.stderr


def test_it_ends_within_ten_seconds_and_leaves_nothing_behind(demo: Demo) -> None:
    pids = [demo.pid(name) for name in NAMES]
    started = time.monotonic()
    demo.process.send_signal(signal.SIGTERM)
    assert demo.process.wait(12) == 0
    assert time.monotonic() - started < 10
    for pid in pids:
        assert pid is not None
        assert not Path(f"/proc/{pid}").exists()
    assert not list((demo.folder / "run").glob("*.pid"))


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
