"""An orderly stop while people wait, and the next start in the same data folder: everybody gets what they were owed."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import sqlite3
import time
from pathlib import Path

from .conftest import Demo, running_demo
from .stage import FOLLOWER, LISI, SUBSCRIBER, WANGWU, ZHANGSAN, ZHAOLIU, Stage, run_yizhan, wait

LONG = "\n\n".join(f"第{number}段：" + "发件箱里没发完的，重启后接着发。" * 16 for number in range(1, 10))
QUESTION = "我刚才说过的工位编号是什么"
CODES = {WANGWU: "K171", FOLLOWER: "K272", SUBSCRIBER: "K373"}


def test_stopped_with_work_under_way_then_started_again(tmp_path: Path) -> None:
    """SES-16 SES-17 SES-19: stopped within ten seconds with three questions, parts of a message and two proposals open; after
    the next start each question is answered once, the missing parts follow, and the prompts can still be answered."""
    with running_demo(tmp_path) as demo:
        stage = Stage(demo)
        leave_work_under_way(stage)
        sent = parts(stage)
        begun = time.monotonic()
        os.kill(demo.pid, signal.SIGTERM)
        wait(lambda: _ended(stage, sent), 20, lambda: "it did not end")
        assert time.monotonic() - begun < 10
        assert not list((demo.data_dir / "run").glob("*.pid"))
    restarted_ms = time.time() * 1000
    with running_demo(tmp_path) as demo:
        stage = Stage(demo)
        stage.seen(WANGWU, CODES[WANGWU])
        assert stage.told(ZHANGSAN, "确认", "已建待办").startswith("已建待办 #1：关窗")
        assert stage.told(LISI, "确认 1", "核对门牌").startswith("已建待办 #1：核对门牌")
        stage.told(FOLLOWER, "谢谢", CODES[FOLLOWER])
        wait(lambda: CODES[SUBSCRIBER] in stage.ask(SUBSCRIBER, "继续"), what=lambda: "nothing to pull")
        wait(lambda: part_states(demo) == ["sent"] * 5, what=lambda: f"parts are missing: {part_states(demo)}")
        rest, labels = parts(stage), [f"({number}/5)" for number in range(1, 6)]
        assert sent == labels[: len(sent)]
        assert rest == labels[5 - len(rest) :]
        assert len(rest) == 5 - sum(at < restarted_ms for at in sent_moments(demo))
        for who, code in CODES.items():
            assert stage.ask(who, "状态").startswith("现在没有正在处理的事")
            assert sum(code in text for text in stage.texts(who)) == 1, who


def leave_work_under_way(stage: Stage) -> None:
    """People in the middle of things; one part of a long message is out."""
    for who, code in CODES.items():
        stage.ask(who, f"我的工位编号是{code}")
    stage.told(LISI, "建个待办：核对门牌", "即将执行")
    stage.told(ZHANGSAN, "建个待办：关窗", "即将执行")
    refuse_a_second(stage.demo)
    stage.slow_model(30_000)
    waiting = [stage.say(who, QUESTION, wait=False)["exchange"] for who in CODES if who != SUBSCRIBER]
    stage.say(SUBSCRIBER, QUESTION, wait=False)
    stage.call("POST", "faults", {"name": "slow_ms", "value": 2500, "path": "message/send"})
    pushed = stage.yizhan("push", LONG, "--account", "wecom-main", "--user", ZHAOLIU[1])
    assert pushed.returncode == 0, pushed.stderr
    wait(lambda: all(stage.call("GET", f"exchanges/{one}")["state"] == "done" for one in waiting))
    wait(lambda: parts(stage), what=lambda: "no part went out")


def refuse_a_second(demo: Demo) -> None:
    """A second ``up`` in the same data folder says who is there and what to do."""
    refused = run_yizhan("up", "--demo", "--data-dir", str(demo.data_dir), environ={})
    assert refused.returncode == 1
    assert f"{demo.data_dir} 已经有一个 yizhan up 在运行（进程 {demo.pid}）；先停掉它" in refused.stderr
    assert "Traceback" not in refused.stderr


def parts(stage: Stage) -> list[str]:
    """The labels of the parts zhaoliu has got."""
    return re.findall(r"^\(\d/\d\)", "\n".join(stage.texts(ZHAOLIU)), re.MULTILINE)


def part_states(demo: Demo) -> list[str]:
    """The states of the long message's parts, in order."""
    return [status for status, _ in _rows(demo)]


def sent_moments(demo: Demo) -> list[int]:
    """When each part of the long message went out, milliseconds since the epoch."""
    return [sent_at_ms for _, sent_at_ms in _rows(demo)]


def _rows(demo: Demo) -> list[tuple[str, int]]:
    with contextlib.closing(sqlite3.connect(demo.data_dir / "yizhan.db")) as connection:
        return list(connection.execute("SELECT status, sent_at_ms FROM outbox_message WHERE cause = 'push' ORDER BY part"))


def _ended(stage: Stage, sent: list[str]) -> bool:
    """Whether the supervisor is gone; notes on the way what zhaoliu has got by now."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        sent[:] = parts(stage)
    try:
        return Path(f"/proc/{stage.demo.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
