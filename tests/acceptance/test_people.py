"""Ten people of three accounts write at the same time: each is answered, in order, with nobody else's words."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .conftest import Demo
from .stage import FOLLOWER, LISI, SUBSCRIBER, WANGWU, ZHANGSAN, ZHAOLIU, Person, Stage

MEMBERS: list[Person] = [ZHANGSAN, LISI, WANGWU, ZHAOLIU, ("wecom-main", "zhangsan02")]
FOLLOWERS: list[Person] = [
    FOLLOWER,
    ("mp-main", "oSecondFollower000000000001"),
    ("mp-main", "oThirdFollower0000000000001"),
    SUBSCRIBER,
    ("mp-sub", "oSecondSubscriber0000000001"),
]
CODES = {who: f"K{number}7{number}-{who[1][:4]}" for number, who in enumerate([*MEMBERS, *FOLLOWERS])}
"""A word of each person's own that no other answer may hold."""


@pytest.fixture(scope="module")
def stage(demo: Demo) -> Stage:
    return Stage(demo)


def chat(stage: Stage, who: Person) -> list[str]:
    """One person's talk, one message after the other's answer; what was answered to each."""
    code = CODES[who]
    lines = ["在吗", f"我的工位编号是{code}", "我刚才说过的工位编号是什么", "状态", "帮助"]
    answers = [stage.ask(who, line) for line in lines]
    if who in MEMBERS:
        stage.told(who, f"建个待办：整理{code}", f"整理{code}")
        answers.append(stage.told(who, "确认", "已建待办"))
        answers.append(stage.ask(who, "我的待办"))
    return answers


@pytest.fixture(scope="module")
def answers(stage: Stage) -> dict[Person, list[str]]:
    """All ten at once, each in a thread of their own."""
    everybody = [*MEMBERS, *FOLLOWERS]
    with ThreadPoolExecutor(len(everybody)) as pool:
        return dict(zip(everybody, pool.map(lambda who: chat(stage, who), everybody), strict=True))


@pytest.mark.parametrize("who", [*MEMBERS, *FOLLOWERS], ids=lambda who: f"{who[0]}-{who[1][:12]}")
def test_each_gets_their_own_answers_in_order(who: Person, answers: dict[Person, list[str]], stage: Stage) -> None:
    """S001-39: every answer reaches exactly the person and the conversation it belongs to, in the order of the questions."""
    hello, _noted, recalled, status, commands, *todo = answers[who]
    assert "你好" in hello
    assert f"我的工位编号是{CODES[who]}" in recalled
    assert "现在没有正在处理的事" in status
    assert commands.startswith("你可以直接把要办的事发给我" if who in MEMBERS else "有问题直接发给我")
    if todo:
        assert f"已建待办 #1：整理{CODES[who]}" in todo[0]
        assert todo[1].count("\n#") == 1, "only this person's to-do is listed"
        assert f"整理{CODES[who]}" in todo[1]
    seen = stage.texts(who)
    wanted = [text for text in answers[who] if text]
    assert [text for text in seen if text in wanted] == wanted, "seen in the order of the questions, none twice"


@pytest.mark.parametrize("who", [*MEMBERS, *FOLLOWERS], ids=lambda who: f"{who[0]}-{who[1][:12]}")
def test_nobody_sees_anothers_words(who: Person, answers: dict[Person, list[str]], stage: Stage) -> None:
    """S001-39: no text of one person appears in another's chat."""
    seen = "\n".join(stage.texts(who))
    assert CODES[who] in seen
    assert [code for other, code in CODES.items() if other != who and code in seen] == []


def test_only_members_are_offered_what_members_may_do(stage: Stage, answers: dict[Person, list[str]]) -> None:
    """N-12: followers are customers: no tool, no operator command; 帮助 lists only what this person may use."""
    assert "建待办" in stage.ask(LISI, "工具")
    assert stage.ask(FOLLOWER, "工具") == "现在没有你可以用的工具。"
    for commands in (answers[FOLLOWER][4], answers[SUBSCRIBER][4]):
        assert "待确认" not in commands
        assert "诊断" not in commands
    assert "待确认" in answers[LISI][4]
    assert "诊断" not in answers[LISI][4]
    assert "诊断" in answers[ZHANGSAN][4]


def test_messages_sent_in_one_breath_are_all_answered(stage: Stage) -> None:
    """Fragments without waiting (「建个待办」「给打印机换墨盒」) come to one proposal, whether they joined or followed."""
    before = stage.last(ZHAOLIU)
    for text in ("建个待办", "给打印机换墨盒"):
        stage.say(ZHAOLIU, text, wait=False)
    stage.seen(ZHAOLIU, "标题：“给打印机换墨盒”", before)
    assert stage.told(ZHAOLIU, "确认", "已建待办").startswith("已建待办 #2：给打印机换墨盒")
