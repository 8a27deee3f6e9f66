"""The rule model leaves nobody at a dead end: what it does not know, cannot find or was not told leads on."""

from __future__ import annotations

import pytest

from agent import texts
from agent.edits import edited_arguments
from agent.llm.base import ToolOffer
from agent.rule.slots import fill
from memory.segment import Segmenter
from tests.unit.agent.test_offline import EXAMPLE, NOW, OFFERS, Talk, called


async def test_unsure_shows_everyday_things_first_and_says_that_there_are_more(segmenter: Segmenter) -> None:
    """The way out of a dead end: what most people ask for, sentences to try, and where the rest is listed."""
    told = (await Talk(segmenter).say("asdfghjkl")).text
    assert "我现在能帮你：\n· 建待办\n· 设提醒\n· 查待办\n· 查提醒\n· 给同事发消息\n· 完成待办\n" in told
    assert f"· 还有 {len(OFFERS) - 8} 项，回复「工具」看全部" in told
    assert told.endswith(f"例如「{EXAMPLE['todo_create']}」「{EXAMPLE['reminder_create']}」。")


async def test_a_machine_that_is_not_there_is_not_taken_for_another(segmenter: Segmenter) -> None:
    """S001-52: whoever asks for web-99 is not told how this host is."""
    talk = Talk(segmenter)
    told = await talk.say("查服务器状态 web-99")
    assert told.tool_calls == ()
    assert "这里没有“web-99”。请选一个主机：" in told.text
    assert called(await talk.say("web-01")) == ("server_status", {"host": "web-01"})
    assert called(await Talk(segmenter).say("查服务器状态")) == ("server_status", {})


async def test_a_tool_that_says_little_is_asked_for_in_words(segmenter: Segmenter) -> None:
    """A first tool without labels or triggers: its own title is no argument, a number takes its unit along, no question is
    cut off at a space."""
    room = {"type": "string", "description": "the room's name, such as A", "title": "Room"}
    properties = {"room": room, "hours": {"type": "integer", "default": 1, "title": "Hours"}}
    parameters = {"type": "object", "properties": properties, "required": ["room"], "additionalProperties": False}
    talk = Talk(segmenter, [*OFFERS, ToolOffer("book_room", "Book a meeting room.", parameters, (), (), "预订会议室", {})])
    assert "the room's name" in (await talk.say("预订会议室")).text
    assert called(await talk.say("大厅")) == ("book_room", {"room": "大厅"})
    assert called(await talk.say("预订会议室 A101，2小时")) == ("book_room", {"room": "A101", "hours": 2})


@pytest.mark.parametrize(
    ("said", "room", "hours"),
    [
        ("预订会议室 301", "301", None),
        ("预订会议室：301", "301", None),
        ("预订会议室 301，2小时", "301", 2),
        ("预订会议室301 两小时", "301", 2),
        ("预订会议室，2小时，301", "301", 2),
        ("预订会议室 A1 2", "A1", 2),
        ("预订会议室 2小时", None, 2),
        ("预订会议室 8", None, None),
    ],
)
def test_a_mere_number_is_a_needed_word_before_it_is_a_count(said: str, room: str | None, hours: int | None) -> None:
    """What counts hours says so; a number alone is the room, and where that is not plain it is asked."""
    properties = {
        "room": {"type": "string", "description": "会议室"},
        "hours": {"type": "integer", "default": 1, "description": "小时数"},
    }
    parameters = {"type": "object", "properties": properties, "required": ["room"]}
    offer = ToolOffer("book_room", "Book a room.", parameters, title="预订会议室", writes=True)
    filled = fill(said, offer, NOW)
    assert (filled.get("room"), filled.get("hours")) == (room, hours)


@pytest.mark.parametrize("said", ["改成3个人", "改成三人", "人数改成3", "改成3个"])
def test_a_change_counts_people_as_people_do(said: str) -> None:
    """个人 is a measure word like any other."""
    properties = {"day": {"type": "string"}, "people": {"type": "integer"}}
    call = {"day": "周六", "people": 1}
    changed = edited_arguments({"properties": properties}, call, said, NOW, {"day": "哪天", "people": "人数"})
    assert changed == {"day": "周六", "people": 3}


async def test_a_question_is_not_answered_by_a_greeting_or_after_long(segmenter: Segmenter) -> None:
    """「你好」 is no page's title; what was asked ten minutes ago is forgotten. As the words of a message it is one."""
    talk = Talk(segmenter)
    assert "标题" in (await talk.say("查知识库页面")).text
    assert (await talk.say("你好")).text == texts.RULE_HELLO
    assert "标题" in (await talk.say("查知识库页面")).text
    talk.state["slots"]["at"] -= 601
    assert texts.RULE_UNSURE in (await talk.say("三号文件")).text
    assert "内容" in (await talk.say("给李四发消息")).text
    assert called(await talk.say("你好")) == ("send_message", {"to": "李四", "text": "你好"})


async def test_a_change_of_what_is_done_says_how(segmenter: Segmenter) -> None:
    """改成四点 when nothing waits: what is done is taken back first."""
    told = await Talk(segmenter).say("改成四点")
    assert told.text.endswith(texts.RULE_NOTHING_TO_CHANGE)
    assert "取消提醒 1" in told.text
    assert texts.RULE_UNSURE in (await Talk(segmenter, []).say("改成四点")).text


async def test_nobody_in_particular_is_asked_for(segmenter: Segmenter) -> None:
    """「给同事发消息」 names no colleague."""
    talk = Talk(segmenter)
    assert (await talk.say("给同事发消息")).text.endswith("请告诉我收件人。")
