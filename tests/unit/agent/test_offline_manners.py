"""The rule model's manners: short answers to short words, honesty about rights, days that do not exist, texts too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent import texts
from agent.edits import edited_arguments
from agent.llm.base import ChatMessage
from agent.llm.offline import RuleModel
from agent.protocol import Deadline
from memory.segment import Segmenter
from tests.unit.agent.test_heard import OFFERS
from tests.unit.agent.test_offline import NOW, Talk, called


@pytest.mark.parametrize(
    ("said", "answer", "to_a_customer"),
    [
        ("好的", texts.RULE_NOD, texts.RULE_NOD_UNABLE),
        ("嗯嗯", texts.RULE_NOD, texts.RULE_NOD_UNABLE),
        ("👌", texts.RULE_NOD, texts.RULE_NOD_UNABLE),
        ("哈哈哈", texts.RULE_NOD, texts.RULE_NOD_UNABLE),
        ("谢谢你啊", texts.RULE_THANKS, texts.RULE_THANKS),
        ("再见", texts.RULE_BYE, texts.RULE_BYE),
        ("下班了，拜拜", texts.RULE_BYE, texts.RULE_BYE),
        ("你真棒！", texts.RULE_PRAISE, texts.RULE_PRAISE),
        ("老师，在不在", texts.RULE_HELLO, texts.RULE_HELLO_UNABLE),
    ],
)
async def test_a_short_word_gets_a_short_answer(segmenter: Segmenter, said: str, answer: str, to_a_customer: str) -> None:
    """A nod with nothing open is no riddle; who may order nothing is not invited to."""
    for tools, wanted in ((OFFERS, answer), ((), to_a_customer)):
        talk = Talk(segmenter, tools)
        talk.state["told_rule"] = True
        assert (await talk.say(said)).text == wanted


async def test_what_one_may_not_use_is_refused_as_such(segmenter: Segmenter) -> None:
    """An employee without the role asks for the tool by its name: the call is made and refused where every call is. Without
    anything withheld (a customer) the same words are not understood."""
    allowed = [offer for offer in OFFERS if offer.name not in ("server_status", "work_order_list")]
    withheld = [offer for offer in OFFERS if offer not in allowed]
    for said, name in (
        ("查服务器状态", "server_status"),
        ("帮我查一下web-01的状态", "server_status"),
        ("有哪些工单", "work_order_list"),
    ):
        messages = [ChatMessage("user", said)]
        model = RuleModel({"told_rule": True}, NOW, "user", segmenter, withheld=withheld)
        assert called(await model.complete(messages, allowed, Deadline(1e12))) == (name, {})
        model = RuleModel({"told_rule": True}, NOW, "customer", segmenter)
        assert (await model.complete(messages, (), Deadline(1e12))).tool_calls == ()


async def test_an_order_one_may_not_give_is_no_answer_either(segmenter: Segmenter) -> None:
    """Asked for a message's words, somebody orders what they may not use: refused as such, never sent as the words."""
    allowed = [offer for offer in OFFERS if offer.name not in ("server_status", "work_order_list")]
    withheld = [offer for offer in OFFERS if offer not in allowed]
    state: dict[str, Any] = {"told_rule": True}
    asked = [ChatMessage("user", "给李四发消息")]
    first = await RuleModel(state, NOW, "user", segmenter, withheld=withheld).complete(asked, allowed, Deadline(1e12))
    assert "内容" in first.text
    for said, name in (("查服务器状态", "server_status"), ("有哪些工单", "work_order_list")):
        model = RuleModel({**state}, NOW, "user", segmenter, withheld=withheld)
        assert called(await model.complete([ChatMessage("user", said)], allowed, Deadline(1e12))) == (name, {})


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        ("提醒我11月31号交报告", "没有“11月31号”这个时间。"),
        ("2月30日上午九点提醒我体检", "没有“2月30日”这个时间。"),
        ("今天25点提醒我睡觉", "没有“25点”这个时间。"),
        ("下周提醒我开会", "“下周”说不准是哪个时候。"),
        ("等会儿提醒我喝水", "“等会儿”说不准是哪个时候。"),
        ("每隔一天提醒我浇花", "提醒只能每天、每个工作日、每周或每月重复，不会“每隔一天”。"),
        ("每周一三五早上八点提醒我跑步", "提醒只能每天、每个工作日、每周或每月重复，不会“每周一三五”。"),
    ],
)
async def test_a_time_that_is_none_is_named(segmenter: Segmenter, said: str, begins: str) -> None:
    """Neither left in the text nor swapped for another time (an hour beside it, tomorrow)."""
    talk = Talk(segmenter, OFFERS)
    talk.state["told_rule"] = True
    reply = await talk.say(said)
    assert reply.tool_calls == ()
    assert reply.text.startswith(begins)


async def test_an_impossible_answer_is_asked_for_until_it_is_one(segmenter: Segmenter) -> None:
    """Days that do not exist are no sign of somebody who lost interest; 周三 after 下周 is next week's."""
    talk = Talk(segmenter, OFFERS)
    await talk.say("提醒我开会")
    for said in ("11月31号", "2月30日", "13月1号"):
        assert f"没有“{said}”这个时间。" in (await talk.say(said)).text
    assert called(await talk.say("明天"))[1] == {"text": "开会", "at": "2026-08-13T09:00:00+08:00"}
    for first, then, at in (("下周提醒我开会", "周三吧", "2026-08-19"), ("下个月提醒我开会", "15号", "2026-09-15")):
        await talk.say(first)
        assert called(await talk.say(then))[1] == {"text": "开会", "at": f"{at}T09:00:00+08:00"}


async def test_nothing_is_cut(segmenter: Segmenter) -> None:
    """A title over its limit is asked for again, in a sentence and as an answer; neither call nor prompt shows a part of it."""
    talk = Talk(segmenter, OFFERS)
    talk.state["told_rule"] = True
    long = "写一份很长的总结" * 30
    told = await talk.say(f"建个待办：{long}")
    assert told.text == "标题有 240 个字，最多 200 个字，我不替你删，请说短一点。请告诉我标题。"
    assert (await talk.say(long)).text == told.text
    assert called(await talk.say("写总结")) == ("todo_create", {"title": "写总结"})


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("建个待办：请柬设计，先进个人评选", {"title": "请柬设计，先进个人评选"}),
        ("建个待办：提醒我爸吃药", {"title": "提醒我爸吃药"}),
        ("建待办 写通知", {"title": "写通知"}),
        ('建待办：<a href="x">点我</a>', {"title": '<a href="x">点我</a>'}),
        ("建个待办：「升级数据库」，截止月底", {"title": "升级数据库", "due": "2026-08-31T18:00:00+08:00"}),
        ("建个待办：整理“三号厅”的座位", {"title": "整理“三号厅”的座位"}),
        ("把前端重构加到待办", {"title": "前端重构"}),
        ("待办：整理会议纪要", {"title": "整理会议纪要"}),
        ("帮我加一条待办 去银行", {"title": "去银行"}),
        ("建个待办 看 https://example.com/a?b=1", {"title": "看 https://example.com/a?b=1"}),
        ("建个待办：内部培训，在前台签到", {"title": "内部培训，在前台签到"}),
        (
            "建个待办：整理预算表（含差旅），周五下午五点前，谢谢！",
            {"title": "整理预算表（含差旅）", "due": "2026-08-14T17:00:00+08:00"},
        ),
    ],
)
async def test_words_are_not_eaten(segmenter: Segmenter, said: str, arguments: dict[str, Any]) -> None:
    """Polite words, triggers and times are taken out where they are such, never out of the middle of other words."""
    assert called(await Talk(segmenter, OFFERS).say(said)) == ("todo_create", arguments)


async def test_an_only_choice_is_no_question(segmenter: Segmenter) -> None:
    """One group, one log: nobody is asked which; a machine that is not there still is."""
    only = next(offer for offer in OFFERS if offer.name == "notify_group")
    fields = only.parameters["properties"]
    one = {**only.parameters, "properties": {**fields, "robot": {**fields["robot"], "enum": ["ops"]}}}
    offers = [offer for offer in OFFERS if offer.name != "notify_group"]
    talk = Talk(segmenter, [*offers, replace(only, parameters=one)])
    assert called(await talk.say("群通知：今晚维护")) == ("notify_group", {"robot": "ops", "text": "今晚维护"})


async def test_one_reminds_oneself_and_tells_one_at_a_time(segmenter: Segmenter) -> None:
    """What the tools cannot do is said, with what they can: neither one of two is told, nor the wrong one reminded."""
    talk = Talk(segmenter, OFFERS)
    talk.state["told_rule"] = True
    assert (await talk.say("提醒张三明天交周报")).text == "我只能提醒你自己。要告诉张三，可以说「告诉张三：…」。"
    for said in ("告诉张三和李四明天开会", "发消息给张三、李四：明天开会"):
        reply = await talk.say(said)
        assert (reply.tool_calls, reply.text) == ((), texts.RULE_ONE_PERSON)


async def test_several_orders_or_none(segmenter: Segmenter) -> None:
    """Where one of them lacks something, nothing is done and that one is named."""
    talk = Talk(segmenter, OFFERS)
    talk.state["told_rule"] = True
    told = await talk.say("建个待办买票；提醒我")
    assert told.tool_calls == ()
    assert told.text == "你一次说了 2 件事，其中“提醒我”还不完整，所以都没有做。请一件一件发给我。"
    assert len((await talk.say("建个待办买票；提醒我五点下班")).tool_calls) == 2


async def test_how_to_and_what_is_answer_the_question(segmenter: Segmenter) -> None:
    """Asked how a thing is done, or what it is, it tells; it neither starts it nor says that it did not understand."""
    for said in ("怎么建待办", "什么是待办", "待办有什么用"):
        reply = await Talk(segmenter, OFFERS).say(said)
        assert reply.tool_calls == ()
        assert "建一个待办，可以带截止时间，也可以到点提醒。直接用一句话说就行，例如「" in reply.text
        assert texts.RULE_UNSURE not in reply.text


def test_a_day_that_is_due_ends_with_the_working_day() -> None:
    """「截止时间改成明天」 where none was told before means the same as 「明天截止」 in the order itself."""
    offer = next(one for one in OFFERS if one.name == "todo_create")
    for text, due in (("截止时间改成明天", "2026-08-13T18:00:00+08:00"), ("提醒时间改成明天", "2026-08-13T09:00:00+08:00")):
        changed = edited_arguments(offer.parameters, {"title": "买水"}, text, NOW, offer.labels)
        assert changed is not None
        assert due in changed.values()
