"""`yizhan demo`: plays short conversations through the simulator and prints them, starting a demo when none runs."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config import demo
from config.settings import DEMO_STATE, child_environment
from gateway import up_texts
from gateway.cli_up_run import TOKEN_FILE

_READY_S = 60.0
_PUSH_S = 8.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One account's conversation: what is said, and whether a pushed message is worth waiting for."""

    title: str
    account: str
    user: str
    says: tuple[tuple[str, bool], ...]


SCENES = (
    Scene(
        "企业微信自建应用：张三",
        "wecom-main",
        "zhangsan",
        (("你好", False), ("帮助", False), ("建个待办：明天上午10点交周报", True), ("确认", False), ("诊断", True)),
    ),
    Scene("已认证公众号：一位关注者", "mp-main", demo.MP_MAIN_OPEN_ID, (("你好", False), ("状态", False))),
    Scene("未认证公众号：一位关注者", "mp-sub", demo.MP_SUB_OPEN_ID, (("你好", False), ("继续", False))),
)


class Simulator:
    """The control API of a running simulator."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request. Raises OSError or ValueError when it does not answer as it should."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
            connection.request(method, path, content, {"X-Sim-Token": self._token, "Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                raise ValueError(f"the simulator answered {response.status}")
            return json.loads(answer)
        finally:
            connection.close()


def play(args: argparse.Namespace) -> int:
    """Play every scene; 0, or 1 when the demo could not be reached."""
    try:
        with _simulator(args.data_dir or Path("data")) as simulator:
            print(up_texts.DEMO_TITLE)
            for scene in SCENES:
                print(f"\n== {scene.title} ==")
                for text, wait in scene.says:
                    _say(simulator, scene, text, wait_for_push=wait)
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(up_texts.DEMO_FAILED.format(reason=error), file=sys.stderr)
        return 1
    print(f"\n{up_texts.DEMO_DONE}")
    return 0


def _say(simulator: Simulator, scene: Scene, text: str, *, wait_for_push: bool) -> None:
    seen = _newest(simulator, scene)
    print(up_texts.DEMO_ASK.format(who=scene.user, text=text), flush=True)
    said = simulator.call("POST", "/_sim/say", {"account": scene.account, "user": scene.user, "text": text})
    took_ms = sum(int(delivery.get("ms") or 0) for delivery in said["deliveries"])
    deadline = time.monotonic() + (_PUSH_S if wait_for_push else 0.0)
    while True:
        for item in _inbox(simulator, scene, seen):
            seen = item["n"]
            passive = item["via"] == "passive"
            way = up_texts.DEMO_PASSIVE if passive else up_texts.DEMO_PUSH
            shown = (item["text"] or "").replace("\n", "\n    ")
            form = up_texts.DEMO_ANSWER if passive else up_texts.DEMO_LATER
            print(form.format(way=way, ms=took_ms, text=shown), flush=True)
            wait_for_push = wait_for_push and passive
        if not wait_for_push or time.monotonic() > deadline:
            return
        time.sleep(0.1)


def _inbox(simulator: Simulator, scene: Scene, after: int) -> list[dict[str, Any]]:
    found = simulator.call("GET", f"/_sim/inbox?account={scene.account}&user={scene.user}&after={after}")
    return list(found["messages"] if isinstance(found, dict) else found)


def _newest(simulator: Simulator, scene: Scene) -> int:
    return max((int(item["n"]) for item in _inbox(simulator, scene, 0)), default=0)


@contextmanager
def _simulator(data_dir: Path) -> Iterator[Simulator]:
    """The simulator of the demo that runs in ``data_dir``, else of one started for this."""
    running = _find(data_dir)
    if running is not None:
        yield running
        return
    print(up_texts.DEMO_NOT_RUNNING, flush=True)
    with tempfile.TemporaryDirectory(prefix="yizhan-demo-") as folder, _started(Path(folder)) as simulator:
        yield simulator


@contextmanager
def _started(folder: Path) -> Iterator[Simulator]:
    root = str(Path(__file__).resolve().parents[1])
    ports = ["--port", "0", "--admin-port", "0", "--sim-port", "0"]
    command = [sys.executable, "-m", "gateway.cli", "up", "--demo", "--data-dir", str(folder), *ports]
    log = folder / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 -- our own command line
            command, stdout=output, stderr=output, env=child_environment({"PYTHONPATH": root})
        )
    try:
        end = time.monotonic() + _READY_S
        while "ready" not in log.read_text("utf-8", "replace"):
            if process.poll() is not None or time.monotonic() > end:
                raise OSError(log.read_text("utf-8", "replace").strip()[-300:] or "it did not start")
            time.sleep(0.1)
        found = _find(folder)
        if found is None:
            raise OSError("the simulator does not answer")
        yield found
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
            process.wait(15)


def _find(data_dir: Path) -> Simulator | None:
    run = data_dir / "run"
    try:
        port = int(json.loads((run / DEMO_STATE).read_text())["sim_port"])
        simulator = Simulator(port, (run / TOKEN_FILE).read_text().strip())
        simulator.call("GET", f"/_sim/inbox?account=wecom-main&user={SCENES[0].user}&after=0")
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return None
    return simulator
