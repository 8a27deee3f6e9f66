"""The running demo as people, operators and troublemakers meet it: the simulator's control API, its processes, its commands."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from config import demo as people
from gateway.supervisor import read_pid

from .conftest import ROOT, Demo

ZHANGSAN = ("wecom-main", "zhangsan")
"""The demo's operator."""
LISI = ("wecom-main", "lisi")
WANGWU = ("wecom-main", "wangwu")
ZHAOLIU = ("wecom-main", "zhaoliu")
FOLLOWER = ("mp-main", people.MP_MAIN_OPEN_ID)
"""Of the verified Official Account: a customer."""
SUBSCRIBER = ("mp-sub", people.MP_SUB_OPEN_ID)
"""Of the unverified one: a customer whose late answers wait."""
PATIENCE_S = 60.0
"""How long a condition may take on a busy machine; an idle one needs a fraction."""
Person = tuple[str, str]


@dataclass
class Stage:
    """One running demo. Everything that waits polls a condition with a deadline."""

    demo: Demo
    settings: Path | None = None
    environ: dict[str, str] = field(default_factory=dict)

    # the simulator ----------------------------------------------------------------------------------------------------
    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request to the control API; fails the test unless it is answered with 200."""
        status, answer, _ = self.http(
            method, f"{self.demo.base}/_sim/{path}", None if body is None else json.dumps(body), {"X-Sim-Token": self.demo.token}
        )
        assert status == 200, answer
        return json.loads(answer)

    def http(self, method: str, url: str, body: str | None = None, headers: dict[str, str] | None = None) -> Any:
        """A bare HTTP request, as a browser or curl would send it: (status, text, headers)."""
        parts = urlsplit(url)
        with contextlib.closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=90)) as connection:
            content = None if body is None else body.encode()
            path = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request(method, path, content, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.headers)

    def say(self, who: Person, text: str, **more: Any) -> dict[str, Any]:
        """Somebody writes; returns once the callback exchange is over."""
        said: dict[str, Any] = self.call("POST", "say", {"account": who[0], "user": who[1], "text": text, **more})
        return said

    def ask(self, who: Person, text: str) -> str:
        """What came back in the HTTP response, or the empty string."""
        return next((d["passive"] for d in self.say(who, text)["deliveries"] if d["passive"]), "")

    def inbox(self, who: Person, after: int = 0) -> list[dict[str, Any]]:
        """What the person has seen, in order."""
        query = urlencode({"account": who[0], "user": who[1], "after": after})
        return list(self.call("GET", f"inbox?{query}"))

    def texts(self, who: Person, after: int = 0) -> list[str]:
        """The texts the person has seen, in order."""
        return [item["text"] or "" for item in self.inbox(who, after)]

    def last(self, who: Person) -> int:
        """The number of the newest message the person has seen; 0 when none."""
        return max((int(item["n"]) for item in self.inbox(who)), default=0)

    def seen(self, who: Person, part: str, after: int = 0, count: int = 1) -> dict[str, Any]:
        """Wait until the person has seen ``count`` messages with ``part``; the last of them."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [item for item in self.inbox(who, after) if part in (item["text"] or "")]
            return len(found) >= count

        wait(there, what=lambda: f"{who} never saw {part!r} but {self.texts(who, after)}")
        return found[-1]

    def told(self, who: Person, text: str, part: str) -> str:
        """Say something and wait for the answer that contains ``part``, whatever way it comes."""
        before = self.last(who)
        self.say(who, text)
        return str(self.seen(who, part, before)["text"])

    def advance(self, seconds: float) -> None:
        """Move the clock of platforms and product."""
        self.call("POST", "clock", {"advance_s": seconds})

    def slow_model(self, milliseconds: int) -> None:
        """The demo's model takes that long for every answer from now on."""
        self.call("POST", "demo", {"model_delay_ms": milliseconds})

    def calls(self, account: str, path: str) -> list[dict[str, Any]]:
        """API calls the platform received."""
        return list(self.call("GET", f"calls?{urlencode({'account': account, 'path': path})}"))

    # processes --------------------------------------------------------------------------------------------------------
    def pid(self, name: str) -> int | None:
        """The process id the supervisor wrote for a child."""
        return read_pid(self.demo.data_dir / "run" / f"{name}.pid")

    def kill(self, name: str) -> int:
        """``kill -9`` of one child; the pid that died."""
        pid = self.pid(name)
        assert pid is not None, f"{name} does not run"
        os.kill(pid, signal.SIGKILL)
        return pid

    def restarted(self, name: str, before: int) -> float:
        """Wait for the successor of a killed child; how many seconds it took."""
        return wait(lambda: self.pid(name) not in (None, before), what=lambda: f"{name} did not come back")

    def ports(self) -> dict[str, int]:
        """The demo's ports: sim_port, http_port, admin_port."""
        found: dict[str, int] = json.loads((self.demo.data_dir / "run" / "demo.json").read_text())
        return found

    def ready(self) -> None:
        """Wait until the gateway says that it and what it depends on are up."""

        def looks() -> bool:
            try:
                return bool(self.http("GET", f"http://127.0.0.1:{self.ports()['admin_port']}/readyz")[0] == 200)
            except OSError:
                return False

        wait(looks, what=lambda: "the gateway did not become ready")

    # commands ---------------------------------------------------------------------------------------------------------
    def yizhan(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """One ``yizhan`` command beside the running demo, as an operator types it."""
        return run_yizhan(*words, environ={"YIZHAN_DATA_DIR": str(self.demo.data_dir)}, stdin=stdin)


def run_yizhan(*words: str, environ: dict[str, str], stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in its own process with its own environment; text in, text out."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("YIZHAN_")}
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", *words],
        cwd=ROOT,
        env={**plain, "NO_COLOR": "1", **environ},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def wait(condition: Callable[[], Any], limit_s: float = PATIENCE_S, what: Callable[[], str] = lambda: "it") -> float:
    """Poll until the condition holds; seconds it took. Fails the test with ``what`` when it does not in time."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > limit_s:
            pytest.fail(f"not within {limit_s:g} s: {what()}")
        time.sleep(0.03)
    return time.monotonic() - started
