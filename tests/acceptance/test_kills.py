"""``kill -9`` at awkward moments, in a person's chat: one answer each, nothing lost, nothing twice."""

from __future__ import annotations

import json

import pytest

from .conftest import Demo
from .stage import FOLLOWER, LISI, WANGWU, ZHANGSAN, ZHAOLIU, Person, Stage, wait

LONG = "\n\n".join(f"第{number}段：" + "驿站把消息先落盘再应答，进程被杀也不丢。" * 12 for number in range(1, 8))
"""Some 4,900 bytes: three messages of the app."""


@pytest.fixture(scope="module")
def stage(demo: Demo) -> Stage:
    return Stage(demo)


def test_killed_between_the_acknowledgement_and_the_answer(stage: Stage) -> None:
    """OA5-22 SES-16: ten messages; three are answered, then the gateway and Valkey are killed while seven are being worked
    on, and the worker as soon as it has taken over: ten answers, none twice."""
    everybody: list[Person] = [ZHANGSAN, LISI, WANGWU, ZHAOLIU, ("wecom-main", "zhangsan02"), FOLLOWER]
    everybody += [("mp-main", f"oKilled{number}000000000000000") for number in range(4)]
    for number, who in enumerate(everybody):
        stage.ask(who, f"我的工位编号是K{number}7{number}")
    before = {who: stage.last(who) for who in everybody}
    question = "我刚才说过的工位编号是什么"
    for number, who in enumerate(everybody[:3]):
        assert f"K{number}7{number}" in stage.ask(who, question)
    stage.slow_model(6000)
    asked = [stage.say(who, question, wait=False)["exchange"] for who in everybody[3:]]
    log = stage.demo.data_dir / "logs" / "worker.log"
    wait(lambda: acknowledged(stage, asked), what=lambda: "not all seven were acknowledged")
    serve, valkey = stage.kill("serve"), stage.kill("valkey")
    stage.restarted("serve", serve)
    stage.restarted("valkey", valkey)
    seen = log.stat().st_size
    wait(lambda: "turn.started" in log.read_text("utf-8")[seen:], what=lambda: "the worker took nothing over")
    worker = stage.kill("worker")
    stage.slow_model(0)
    stage.restarted("worker", worker)
    for number, who in enumerate(everybody):
        stage.seen(who, f"K{number}7{number}", before[who])
    stage.ready()
    for number, who in enumerate(everybody):
        stage.told(who, "状态", "现在没有正在处理的事")
        told = [text for text in stage.texts(who, before[who]) if "说过的" in text]
        assert len(told) == 1, f"{who}: {told}"
        assert f"K{number}7{number}" in told[0]


def acknowledged(stage: Stage, exchanges: list[str]) -> bool:
    """Whether the gateway has answered all of these callbacks."""
    return all(stage.call("GET", f"exchanges/{one}")["state"] == "done" for one in exchanges)


def test_killed_between_confirmation_and_result(stage: Stage) -> None:
    """N-05 N-18: after 确认 the other system has made the order but its answer is late, and the gateway is killed: the key goes
    along again, so there is one order, and one outcome is told."""
    title = "门禁读卡器坏了"
    stage.told(ZHANGSAN, f"建工单：{title}", "即将执行")
    before = stage.last(ZHANGSAN)
    stage.call("POST", "faults", {"name": "slow_ms", "value": 8000, "count": 1, "path": "/_svc/work_orders"})
    said = stage.say(ZHANGSAN, "确认", wait=False)
    wait(lambda: orders(stage, title), what=lambda: "the order was never made")
    stage.restarted("serve", stage.kill("serve"))
    wait(lambda: acknowledged(stage, [said["exchange"]]), what=lambda: "the confirmation was never acknowledged")
    stage.seen(ZHANGSAN, f"：{title}", before)
    assert len(orders(stage, title)) == 1
    told = [text for text in stage.texts(ZHANGSAN, before) if title in text]
    assert told == [f"已建工单 {orders(stage, title)[0]}：{title}"]


def test_killed_the_moment_somebody_confirms(stage: Stage) -> None:
    """确认 and kill -9 in the same instant, valkey with it: the to-do is there once and told once."""
    stage.told(LISI, "建个待办：换门禁电池", "即将执行")
    before = stage.last(LISI)
    said = stage.say(LISI, "确认", wait=False)
    serve, valkey = stage.kill("serve"), stage.kill("valkey")
    stage.restarted("serve", serve)
    stage.restarted("valkey", valkey)
    wait(lambda: acknowledged(stage, [said["exchange"]]), what=lambda: "the confirmation was never acknowledged")
    told = stage.seen(LISI, "：换门禁电池", before)["text"]
    stage.ready()
    assert told.startswith("已建待办 #1：换门禁电池")
    assert stage.ask(LISI, "我的待办").count("换门禁电池") == 1
    assert sum("已建待办" in text for text in stage.texts(LISI, before)) == 1


def orders(stage: Stage, title: str) -> list[str]:
    """The other system's orders of this title."""
    found = json.loads(stage.http("GET", f"{stage.demo.base}/_svc/work_orders")[1])["items"]
    return [order["id"] for order in found if order["title"] == title]


def test_killed_between_two_parts(stage: Stage) -> None:
    """SES-17: killed after the first part of a long message went out: the rest follows, each part once, in order."""
    before = stage.last(WANGWU)
    stage.call("POST", "faults", {"name": "slow_ms", "value": 700, "path": "message/send"})
    sent = stage.yizhan("push", LONG, "--account", "wecom-main", "--user", "wangwu")
    assert sent.returncode == 0, sent.stderr
    wait(lambda: stage.inbox(WANGWU, before), what=lambda: "no part went out")
    serve = stage.kill("serve")
    stage.call("POST", "faults", {"clear": True})
    stage.restarted("serve", serve)
    stage.seen(WANGWU, "(3/3)", before)
    parts = stage.texts(WANGWU, before)
    assert [part.rstrip()[-5:] if part.rstrip().endswith("3)") else part[:5] for part in parts] == ["(1/3)", "(2/3)", "(3/3)"]
    for number in range(1, 8):
        assert sum(f"第{number}段：" in part for part in parts) == 1
