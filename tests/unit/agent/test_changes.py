"""Short changes to a proposal: which words ask for one, and what becomes of the arguments."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.changes import read_change
from agent.edits import edited_arguments
from agent.intents import Decision, read_decision

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=ZoneInfo("Asia/Shanghai"))
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "due": {"type": "string", "format": "date-time"},
        "count": {"type": "integer"},
        "to": {"type": "string"},
        "level": {"type": "string", "enum": ["低", "中", "高"]},
    },
}
LABELS = {"title": "标题", "due": "截止时间", "count": "台数", "to": "收件人", "level": "级别"}
ARGUMENTS = {"title": "周报", "due": "2026-12-01T15:00:00+08:00", "count": 2, "to": "张三"}


@pytest.mark.parametrize(
    ("text", "number", "edit_text"),
    [
        ("改成后天", None, "后天"),
        ("改成后天上午。", None, "后天上午"),
        ("改為後天", None, "後天"),
        ("请改成后天", None, "后天"),
        ("那就改成后天吧", None, "后天吧"),
        ("把它改成后天", None, "后天"),
        ("换成张三", None, "张三"),
        ("推迟到周五", None, "周五"),
        ("改一下到周五", None, "周五"),
        ("不对，改成后天", None, "后天"),
        ("不要了，换成后天", None, "后天"),
        ("好的，改成后天", None, "后天"),
        ("不是，是后天", None, "后天"),
        ("不对，应该是后天", None, "后天"),
        ("27 改成后天", 27, "后天"),
        ("#27改成后天", 27, "后天"),
        ("27改成后天", 27, "后天"),
        ("27：改成后天", 27, "后天"),
        ("把 27 改成后天", 27, "后天"),
        ("第27项改成后天", 27, "后天"),
        ("27 的时间改到周五", 27, "时间改到周五"),
        ("把#27的时间改到周五", 27, "时间改到周五"),
        ("把时间改到下午四点", None, "把时间改到下午四点"),
        ("改一下时间到周五", None, "改一下时间到周五"),
        ("时间改一下到周五", None, "时间改一下到周五"),
        ("改时间到周五", None, "改时间到周五"),
        ("标题改成「周报：一、二」", None, "标题改成「周报：一、二」"),
        ("帮我把标题改成 Weekly", None, "把标题改成 Weekly"),
        ("收件人换成李四", None, "收件人换成李四"),
        ("張三換成李四", None, "張三換成李四"),
        ("3台改成5台", None, "3台改成5台"),
        ("2 台改成 5 台", None, "2 台改成 5 台"),
        ("級別改成高", None, "級別改成高"),
    ],
)
def test_reads_a_change(text: str, number: int | None, edit_text: str) -> None:
    """What to change, as typed, without the words around it."""
    assert read_decision(text) == Decision("edit", number=number, edit_text=edit_text)


@pytest.mark.parametrize(
    "text",
    re.split(
        r"[|\n]",
        """\
改成什么好？|改成什么好|能改成后天吗|能改成后天|能不能改成后天|可以改成后天|可以改成后天吗|改成后天会不会太晚
改成后天行不行|改成后天怎么样|改成后天可以吗|要不要改成后天|改到几点|改到哪天|换成谁|换成啥|改成多少台
为什么改成后天|谁改成后天的|如果改成后天|改成后天的话|已经改成后天了|会议改成后天了|时间改成了后天
他把时间改成后天|听说改成后天|被改成后天|别改成后天|不要改成后天|先别改成后天|我不想改成后天|没改成后天
别把时间改成后天|后来换到39楼|最后调整到新翼楼|建议换成标准房|空调到灌水|洗澡水会蔓延到整个卫生间|打算换成XP
改主意了|改成|改天到你家|改革开放到现在|换一个|是后天|不是，是不是后天|不是，是因为下雨
不对，是的|不是不行""",
    ),
)
def test_questions_refusals_and_tales_change_nothing(text: str) -> None:
    """Neither an edit nor a decision: the person asks, declines or tells."""
    assert read_decision(text) is None


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("改成后天", {"due": "2026-12-02T15:00:00+08:00"}),
        ("改成后天上午", {"due": "2026-12-02T09:00:00+08:00"}),
        ("把时间改到下午四点", {"due": "2026-12-01T16:00:00+08:00"}),
        ("改到四点吧", {"due": "2026-12-01T16:00:00+08:00"}),
        ("改一下时间到周五", {"due": "2026-12-04T15:00:00+08:00"}),
        ("推迟到周五", {"due": "2026-12-04T15:00:00+08:00"}),
        ("明天改成后天", {"due": "2026-12-02T15:00:00+08:00"}),
        ("不是明天，是后天", {"due": "2026-12-02T15:00:00+08:00"}),
        ("改为3台", {"count": 3}),
        ("改为2台", {}),  # as it is: shown once more
        ("改成３台", {"count": 3}),
        ("2台改成5台", {"count": 5}),
        ("数量改成三", {"count": 3}),
        ("改成高", {"level": "高"}),
        ("級別改成高吧", {"level": "高"}),
        ("收件人换成李四", {"to": "李四"}),
        ("张三换成李四", {"to": "李四"}),
        ("标题改成“周报：一、二”", {"title": "周报：一、二"}),
        ("标题改成出发吧", {"title": "出发吧"}),
        ("标题改成周报Ａ，第二版", {"title": "周报Ａ，第二版"}),
    ],
)
def test_a_plain_change_is_made(text: str, changed: dict[str, Any]) -> None:
    """One value changes, the others stay; what was typed is kept as typed."""
    assert edited(text) == {**ARGUMENTS, **changed}


@pytest.mark.parametrize(
    "text",
    [
        "时间改成后天，标题改成月报",  # two at once: half would be done
        "改成后天开完会再说",  # more than a time
        "改成后天，顺便多加一台",
        "改成每天",
        "3台改成5台",  # nothing is 3
        "王五换成李四",
        "换成张三",  # a name may be a recipient or a title
        "改成蓝色的",
    ],
)
def test_what_is_not_plain_is_left(text: str) -> None:
    """Nothing is guessed: the model gets it, or the person is asked."""
    assert edited(text) is None


@given(st.text(max_size=220), st.text(alphabet="把将改换成到为一下时间的27#，。不是别先「」台后天", max_size=40))
def test_no_text_is_too_odd(any_text: str, likely: str) -> None:
    """Never raises; the parts of a change are parts of what was said."""
    for text in (any_text, likely, likely + any_text):
        change = read_change(text)
        if change is not None:
            assert change.to
            assert change.to in change.said
            assert change.said in text
        edited_arguments(PARAMETERS, ARGUMENTS, text, NOW, LABELS)


def edited(text: str) -> dict[str, Any] | None:
    """The arguments after the person typed this."""
    decision = read_decision(text)
    assert decision is not None
    assert decision.kind == "edit"
    return edited_arguments(PARAMETERS, ARGUMENTS, decision.edit_text or "", NOW, LABELS)
