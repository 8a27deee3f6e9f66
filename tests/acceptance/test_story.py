"""A person's story: asked in a sentence, shown exactly, changed, confirmed once, looked at, reminded; and who may not."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from config.clock import SHANGHAI

from .conftest import Demo
from .stage import FOLLOWER, LISI, SUBSCRIBER, WANGWU, ZHANGSAN, Person, Stage, wait

SENTENCE = "把web-01的内存告警建一个待办，明天上午提醒我"
DAYS = "一二三四五六日"


@pytest.fixture(scope="module")
def stage(demo: Demo) -> Stage:
    return Stage(demo)


def nine(stage: Stage, ahead: int) -> datetime:
    """Nine o'clock, so many days from the platform's today."""
    return (now(stage) + timedelta(days=ahead)).replace(hour=9, minute=0, second=0, microsecond=0)


def now(stage: Stage) -> datetime:
    """The virtual time, in China."""
    return datetime.fromtimestamp(stage.call("GET", "clock")["now_ms"] / 1000, SHANGHAI)


def shown(at: datetime) -> str:
    """As prompts write a moment: 2026-12-02 09:00（周三）."""
    return f"{at:%Y-%m-%d %H:%M}（周{DAYS[at.weekday()]}）"


def prompt(when: str, number: int, replaces: str = "") -> str:
    """The exact words a person sees before anything happens."""
    return (
        f"即将执行以下操作，请确认\n操作：建待办\n标题：“web-01的内存告警”\n提醒时间：{when}\n{replaces}"
        f"回复「确认 {number}」执行，回复「取消 {number}」放弃（10 分钟内有效）"
    )


def todos(stage: Stage, who: Person) -> list[str]:
    """The lines of the person's open to-dos."""
    return re.findall(r"^#\d+ .*$", stage.ask(who, "我的待办"), re.MULTILINE)


def link_in(text: str) -> str:
    """The signed link of an answer."""
    found = re.search(r"http://127\.0\.0\.1:\d+/\S+", text)
    assert found, text
    return found.group()


def test_asked_changed_confirmed_in_words_then_reminded(stage: Stage) -> None:
    """S001-88: the exact prompt, 改成后天, 确认, one to-do with a page behind its link, and the reminder when it is time."""
    before = stage.last(ZHANGSAN)
    due = nine(stage, 2)
    tomorrow, after_tomorrow = shown(nine(stage, 1)), shown(due)
    stage.say(ZHANGSAN, SENTENCE)
    assert stage.seen(ZHANGSAN, "即将执行", before)["text"] == prompt(tomorrow, 1)
    assert todos(stage, ZHANGSAN) == [], "nothing is written before the person said so"
    stage.say(ZHANGSAN, "改成后天")
    changed = stage.seen(ZHANGSAN, "替换 #1", before)["text"]
    assert changed == prompt(after_tomorrow, 2, "（替换 #1，原来的不再有效）\n")
    assert stage.ask(ZHANGSAN, "确认 1") == "这项已经被新的内容替换，没有执行：建待办：web-01的内存告警"
    assert todos(stage, ZHANGSAN) == []
    told = stage.told(ZHANGSAN, "确认 2", "已建待办")
    assert told.startswith(f"已建待办 #1：web-01的内存告警，{after_tomorrow}提醒你\n查看：http://127.0.0.1:")
    again = stage.told(ZHANGSAN, "确认 2", "已经执行过了")
    assert "不会重复执行" in again
    assert todos(stage, ZHANGSAN) == [f"#1 web-01的内存告警，{after_tomorrow}提醒你"]
    page(stage, link_in(told), "web-01的内存告警")
    stage.advance((due - now(stage)).total_seconds() + 1)
    stage.seen(ZHANGSAN, "提醒：web-01的内存告警", before)
    stage.advance(120)
    assert sum("提醒：web-01的内存告警" in text or "分钟）：web-01" in text for text in stage.texts(ZHANGSAN, before)) == 1


def page(stage: Stage, url: str, title: str) -> None:
    """N-24: the link opens a page with the to-do; another token and a cut one are a friendly 404 that tells nothing."""
    status, body, headers = stage.http("GET", url)
    assert status == 200
    assert title in body
    assert "text/html" in headers["Content-Type"]
    token = url.rsplit("/", 1)[1]
    for wrong in (token[:-1], "A" * len(token), token[:-1] + ("A" if token[-1] != "A" else "B"), token + "x"):
        status, body, headers = stage.http("GET", f"{url.rsplit('/', 1)[0]}/{wrong}")
        assert status == 404, wrong
        assert "链接" in body, "the visitor is told what may have happened, in words"
        assert title not in body


def test_confirmed_by_the_cards_button_once(stage: Stage) -> None:
    """The card's button does it; a second click does it not again; somebody else's click changes nothing."""
    stage.told(LISI, "建个待办：写周报", "即将执行")
    card = card_of(stage, LISI)
    keys = {button["text"]: button["key"] for button in card["button_list"]}
    click = {"account": "wecom-main", "task_id": card["task_id"], "key": keys["确认"]}
    foreign = {"event": "template_card_event", "user": WANGWU[1], "fields": {"ResponseCode": "r" * 32}}
    stage.call("POST", "event", {**click, **foreign})
    stage.seen(WANGWU, "只能由发起的人确认或取消")
    assert todos(stage, LISI) == []
    before = stage.last(LISI)
    for _ in range(2):
        stage.call("POST", "click", {**click, "user": LISI[1]})
    told = stage.seen(LISI, "已建待办 #1：写周报", before)
    assert stage.http("GET", link_in(told["text"]))[0] == 200
    assert todos(stage, LISI) == ["#1 写周报"]
    wait(lambda: card_of(stage, LISI).get("replaced"), what=lambda: "the card never changed")
    assert card_of(stage, LISI)["replaced"] in ("已确认", "已执行")


def card_of(stage: Stage, who: Person) -> dict[str, Any]:
    """The newest card of a chat."""
    cards = [item["card"] for item in stage.inbox(who) if item["kind"] == "template_card"]
    return dict(cards[-1])


@pytest.mark.parametrize("who", [FOLLOWER, SUBSCRIBER], ids=["mp-main", "mp-sub"])
def test_a_follower_is_told_politely_that_it_cannot(stage: Stage, who: Person) -> None:
    """N-12: on Official Accounts nothing is proposed to a customer, and 确认 confirms nothing."""
    before = stage.last(who)
    answer = stage.told(who, SENTENCE, "帮助")
    assert "没看懂" in answer
    assert "没有等你确认的操作" in stage.told(who, "确认", "确认")
    assert not any("即将执行" in text for text in stage.texts(who, before))


def test_the_report_is_for_the_operator(stage: Stage) -> None:
    """「诊断」: a job whose report is pushed to the operator; anybody else is refused in one sentence."""
    before = stage.last(ZHANGSAN)
    assert stage.ask(ZHANGSAN, "诊断") == "好的，正在处理，完成后通知你。"
    report = stage.seen(ZHANGSAN, "检查完毕", before)
    assert report["via"] == "push"
    for who in (LISI, FOLLOWER, SUBSCRIBER):
        refused = stage.ask(who, "诊断")
        assert refused == "「诊断」只有管理员能用。回复「帮助」看你能用的命令。"
    worker = (stage.demo.data_dir / "logs" / "worker.log").read_text("utf-8")
    assert '"doctor"' in worker, "the job ran in the worker"


def test_an_answer_the_window_closed_on_comes_with_the_next_message(stage: Stage) -> None:
    """45015: the late answer is kept and follows as soon as the person writes again; nothing is lost, nothing comes twice."""
    who = ("mp-main", "oW1")
    stage.ask(who, "我的会员号是M515")
    before = stage.last(who)
    stage.slow_model(5500)
    stage.call("POST", "faults", {"name": "errcode", "value": 45015, "count": 1, "path": "message/custom/send"})
    stage.say(who, "我刚才说过的会员号是什么")
    wait(lambda: any(call["errcode"] == 45015 for call in stage.calls("mp-main", "message/custom/send")))
    stage.slow_model(0)
    assert not any("M515" in text for text in stage.texts(who, before))
    stage.ask(who, "在吗")
    stage.seen(who, "M515", before)
    stage.ask(who, "在吗")
    assert sum("M515" in text for text in stage.texts(who, before)) == 1


def test_an_address_that_is_not_allowed(stage: Stage) -> None:
    """60020: the operators' group is told which address to add; the waiting person is told at their next message; the answer
    follows by itself once it is allowed."""
    before = stage.last(WANGWU)
    stage.ask(WANGWU, "我的车牌是京A12345")
    stage.call("POST", "faults", {"name": "ip_blocked", "account": "wecom-main"})
    stage.slow_model(5500)
    stage.say(WANGWU, "我刚才说过的车牌是什么")
    wait(lambda: any("203.0.113.7" in (item["text"] or "") for item in stage.call("GET", "inbox?account=group")))
    stage.slow_model(0)
    assert "管理员已收到通知，恢复后会自动发给你" in stage.ask(WANGWU, "在吗")
    stage.call("POST", "faults", {"clear": True})
    stage.seen(WANGWU, "“我的车牌是京A12345”", before)


def test_stopped_and_tried_again(stage: Stage) -> None:
    """停止 ends what is slow and says so; 重试 does it once more."""
    before = stage.last(LISI)
    stage.ask(LISI, "我的杯子是蓝色的")
    stage.slow_model(20_000)
    said = stage.say(LISI, "我刚才说过的杯子是什么颜色", wait=False)
    wait(lambda: stage.call("GET", f"exchanges/{said['exchange']}")["state"] == "done")
    assert "我刚才说过的杯子是什么颜色" in stage.ask(LISI, "状态")
    assert stage.ask(LISI, "停止") == "好的，正在停下 1 项。"
    stage.seen(LISI, "已停下，“我刚才说过的杯子是什么颜色”没有做完。", before)
    stage.slow_model(0)
    assert "“我的杯子是蓝色的”" in stage.told(LISI, "重试", "蓝色")


def test_the_link_expires(stage: Stage) -> None:
    """N-24: links expire; an old one is the same friendly 404."""
    stage.told(WANGWU, "建个待办：擦白板", "即将执行")
    url = link_in(stage.told(WANGWU, "确认", "已建待办"))
    assert stage.http("GET", url)[0] == 200
    stage.advance(91 * 86_400)
    wait(lambda: stage.http("GET", url)[0] == 404, what=lambda: "the old link still opens")
    assert "擦白板" not in stage.http("GET", url)[1]
