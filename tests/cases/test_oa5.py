"""Area oa-5s: answers around the platform's five seconds. Seconds in the names are a person's; see tests/stack.py."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway import texts
from tests.fakes.model_server import broken, say
from tests.stack import Stack

MEMBER = ("wecom-main", "zhangsan")
VERIFIED = ("mp-main", "oDemoMainFollower00000000001")
UNVERIFIED = ("mp-sub", "oDemoSubFollower000000000002")
LABEL = "\n\n（内容由 AI 生成）"


def passives(said: dict[str, Any]) -> list[str | None]:
    """The passive answer of each delivery."""
    return [delivery["passive"] for delivery in said["deliveries"]]


async def test_oa5_02_an_answer_after_8_s_comes_in_the_second_delivery(stack: Stack) -> None:
    """OA5-02: no placeholder, no extra message of the person."""
    stack.model.then(say("八秒的答案", delay_s=stack.s(8)))
    assert passives(await stack.say(*UNVERIFIED, "问")) == [None, "八秒的答案" + LABEL]
    assert await stack.texts(*UNVERIFIED) == ["八秒的答案" + LABEL]


async def test_oa5_05_a_verified_account_pushes_the_late_answer_once(stack: Stack) -> None:
    """OA5-05, OA5-11: acknowledged in time, one custom/send with the answer."""
    stack.model.then(say("二十秒的答案", delay_s=stack.s(12)))
    said = await stack.say(*VERIFIED, "问")
    assert [d["status"] for d in said["deliveries"]] == [200]
    await stack.seen(*VERIFIED, "二十秒的答案")
    assert [call for call in await stack.calls("mp-main", "message/custom/send") if "二十秒" in str(call)].__len__() == 1


async def test_oa5_06_a_failed_turn_is_told_on_pull_and_forgotten(stack: Stack) -> None:
    """OA5-06: 继续 after a failure gives the error with the retry hint, once; the next question is normal."""
    stack.model.then(say("", delay_s=stack.s(16)), broken("error_500_html"), broken("error_500_html"))
    stack.model.script.popleft()
    stack.model.then(*[broken("error_500_html")] * 6)
    said = await stack.say(*UNVERIFIED, "会失败")
    text = next((p for p in passives(said) if p), "")
    assert "没能完成" in text
    assert "重试" in text
    stack.model.script.clear()
    stack.model.then(say("正常"))
    assert await stack.ask(*UNVERIFIED, "下一个问题") == "正常" + LABEL


async def test_oa5_08_all_three_deliveries_are_used_before_a_placeholder(stack: Stack) -> None:
    """OA5-08: 3 s is a plain answer, 12 s is a plain answer in delivery 3."""
    stack.model.then(say("三秒", delay_s=stack.s(3)))
    assert passives(await stack.say(*UNVERIFIED, "快")) == ["三秒" + LABEL]
    stack.model.then(say("十二秒", delay_s=stack.s(12)))
    assert passives(await stack.say(*UNVERIFIED, "慢")) == [None, None, "十二秒" + LABEL]


async def test_oa5_09_15_16_a_later_answer_waits_for_pull_with_its_question(stack: Stack) -> None:
    """OA5-09, OA5-15, OA5-16: status while running, never a model call for 继续, then the labelled answer."""
    stack.model.then(say("二十五秒的答案", delay_s=stack.s(25)))
    said = await stack.say(*UNVERIFIED, "上个月的用电量是多少呢请告诉我一下谢谢你了")
    assert passives(said)[2] == "正在处理“上个月的用电量是多少呢请告诉我一下谢谢你…”，稍后回复「继续」查看。"
    status = await stack.ask(*UNVERIFIED, "继续")
    assert status.startswith("还在处理：上个月的用电量")

    async def parked() -> bool:
        return bool(await stack.rows("SELECT seq FROM outbox_message WHERE status = 'parked'"))

    await stack.until(parked)
    answer = await stack.ask(*UNVERIFIED, "继续")
    assert answer == "关于：上个月的用电量是多少呢请告诉我一下谢谢你…\n二十五秒的答案" + LABEL
    assert len(stack.model.requests) == 1


async def test_oa5_15_every_pull_word_asks_for_the_answer_on_its_way(stack: Stack) -> None:
    """OA5-15: 继续, 1, １, 更多 and the menu's 继续 while it runs: how it stands; afterwards 1 is the answer; one model call."""
    stack.model.then(say("晚到的答案", delay_s=stack.s(30)))
    await stack.say(*UNVERIFIED, "很慢的问题")
    for word in ("1", "继续", "１", "更多"):
        assert (await stack.ask(*UNVERIFIED, word)).startswith("还在处理：很慢的问题")
    said = await stack.post("event", account=UNVERIFIED[0], user=UNVERIFIED[1], event="click", key="继续")
    assert str(passives(said)[0]).startswith("还在处理：很慢的问题")

    async def parked() -> bool:
        return bool(await stack.rows("SELECT seq FROM outbox_message WHERE status = 'parked'"))

    await stack.until(parked)
    assert await stack.ask(*UNVERIFIED, "1") == f"关于：很慢的问题\n晚到的答案{LABEL}"
    assert len(stack.model.requests) == 1
    assert await stack.ask(*UNVERIFIED, "1") == "好的" + LABEL


async def test_oa5_12_20_the_same_message_id_is_one_turn(stack: Stack) -> None:
    """OA5-12, OA5-20, OA5-21: identical deliveries of one huge MsgId are one turn with one answer."""
    stack.model.then(say("一次", delay_s=stack.s(2)))
    fields = {"message_id": "24000000000000001"}
    await asyncio.gather(*(stack.say(*MEMBER, "同一条", **fields) for _ in range(3)))
    assert len(stack.model.requests) == 1
    assert {text for text in await stack.texts(*MEMBER)} == {"一次"}


async def test_oa5_13_latency_of_300_ms_each_way_still_fits(stack: Stack) -> None:
    """OA5-13: with the network's own delay, an answer after 7 s still arrives in delivery 2."""
    await stack.post("faults", name="callback_latency", ms=int(stack.s(300)))
    stack.model.then(say("七秒", delay_s=stack.s(7)))
    assert passives(await stack.say(*UNVERIFIED, "问")) == [None, "七秒" + LABEL]


async def test_oa5_18_five_slow_questions_in_a_row_are_all_answered_in_order(stack: Stack) -> None:
    """OA5-18: none is lost."""
    for number in range(5):
        stack.model.then(say(f"答案{number}", delay_s=stack.s(12)))
        await stack.say(*UNVERIFIED, f"问题{number}")
    assert await stack.texts(*UNVERIFIED) == [f"答案{number}{LABEL}" for number in range(5)]


async def test_oa5_19_a_slow_wecom_turn_runs_once_and_is_pushed_once(stack: Stack) -> None:
    """OA5-19: acknowledged in time, one turn, one push."""
    stack.model.then(say("推送的答案", delay_s=stack.s(20)))
    said = await stack.say(*MEMBER, "很慢")
    assert passives(said) == [texts.RECEIPT]
    assert (await stack.seen(*MEMBER, "推送的答案"))["via"] == "push"
    sends = await stack.calls("wecom-main", "message/send")
    assert len([call for call in sends if "推送的答案" in str(call)]) == 1
    assert len(stack.model.requests) == 1


async def test_oa5_19_redeliveries_while_it_runs_start_nothing(stack: Stack) -> None:
    """OA5-19, OA5-20: the same message again at 5 and 10 s of 14: it runs once, one push, empty acknowledgements."""
    stack.model.then(say("推送的答案", delay_s=stack.s(14)))
    first = await stack.say(*MEMBER, "很慢")
    for _ in range(2):
        again = await stack.say(*MEMBER, redeliver=first["message_id"])
        assert [(d["status"], d["passive"]) for d in again["deliveries"]] == [(200, None)]
    await stack.seen(*MEMBER, "推送的答案")
    assert await stack.texts(*MEMBER) == [texts.RECEIPT, "推送的答案"]
    assert len(stack.model.requests) == 1


async def test_oa5_21_slow_work_of_some_never_slows_the_callbacks_of_others(stack: Stack) -> None:
    """OA5-21: five people wait for slow work; everybody else is answered meanwhile, and each slow one runs once."""
    stack.model.rule = lambda request: say("慢答", delay_s=stack.s(20))
    slow = [asyncio.create_task(stack.say("wecom-main", f"slow{number}", "慢问")) for number in range(5)]

    async def running() -> bool:
        return len(stack.model.requests) == 5

    await stack.until(running)
    took = []
    for number in range(20):
        said = await stack.say("wecom-main", f"quick{number}", "帮助")
        assert passives(said)[0]
        took.append(said["deliveries"][0]["ms"])
    assert sorted(took)[-2] < 1000
    await asyncio.gather(*slow)
    for number in range(5):
        await stack.seen("wecom-main", f"slow{number}", "慢答")
    assert len(stack.model.requests) == 5
