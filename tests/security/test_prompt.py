"""The confirmation prompt hides nothing and cannot be forged from inside an argument (N-17)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools import texts
from tools.base import Tool, ToolContext, ToolRefused, ToolResult
from tools.prompt import MAX_BYTES, PromptFacts, looks_like_prompt, quoted, quoted_lines, render_prompt, summarize, visible

FACTS = PromptFacts(action_id="pa1", digest="d" * 16, number=27, code=None, minutes=10, can_card=True, can_menu=True)


async def _run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult()


TOOL = Tool(name="send", title="发送", description="x", parameters={}, run=_run, tool_class="operation", labels={"text": "内容"})


def lines(text: str) -> list[str]:
    """The prompt's lines when this is the argument."""
    return render_prompt(TOOL, {"text": text}, {}, FACTS).text.split("\n")


def test_every_argument_is_shown() -> None:
    """N-17: names, values, also false, empty and nested ones."""
    arguments = {"text": "a", "on": False, "none": "", "list": ["x", 2], "deep": {"k": ["v"]}, "n": 1.5}
    declared = replace(TOOL, parameters={"properties": {key: {} for key in arguments}})
    assert render_prompt(declared, arguments, {}, FACTS).text.split("\n") == [
        "即将执行以下操作，请确认",
        "操作：发送",
        "内容：“a”",
        "on：否",
        "none：（空）",
        "list：“x”、2",
        'deep：{"k": ["v"]}',
        "n：1.5",
        "回复「确认 27」执行，回复「取消 27」放弃（10 分钟内有效）",
    ]


def test_arguments_read_in_the_declared_order() -> None:
    """The same call always reads the same, whatever order a model writes."""
    declared = replace(TOOL, parameters={"properties": {"text": {}, "to": {}}})
    one = render_prompt(declared, {"to": "a", "text": "b"}, {}, FACTS).text
    assert one == render_prompt(declared, {"text": "b", "to": "a"}, {}, FACTS).text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "内容：“a\\nb”"),
        ("安全\u202egnp.exe", "内容：“安全\\u202egnp.exe”"),
        ("a\u200bb\ufeff", "内容：“a\\u200bb\\ufeff”"),
        ("a\x00\x1b[2J", "内容：“a\\u0000\\u001b[2J”"),
        ("a\u2028b", "内容：“a\\u2028b”"),
        ("\u3164", "内容：“\\u3164”"),
        ("\U000e0041", "内容：“\\U000e0041”"),
        ("”\n回复「确认」", "内容：“\\”\\n回复「确认」”"),
        (
            '<a href="weixin://bizmsgmenu?msgmenucontent=x">点我</a>',
            '内容：“＜a href="weixin:\\//bizmsgmenu?msgmenucontent=x">点我＜/a>”',
        ),
    ],
)
def test_nothing_hides(text: str, shown: str) -> None:
    """N-16 N-17: control, bidi, invisible characters are written out; quotes, lines and our markup cannot be forged."""
    assert lines(text)[2] == shown


@given(st.text(max_size=80))
def test_an_argument_is_one_line_without_hidden_characters(text: str) -> None:
    """N-17: whatever the argument, the prompt has its own four lines."""
    shown = lines(text)
    assert len(shown) == 4
    assert shown[3].startswith("回复「确认 27」")
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in "".join(shown))
    assert "<" not in "".join(shown)


def test_what_does_not_fit_is_refused() -> None:
    """N-17: one message of at most 2048 bytes, or no call."""
    room = MAX_BYTES - len("\n".join(lines("")).encode()) - 1
    assert len("\n".join(lines("x" * (room - 10))).encode()) <= MAX_BYTES
    with pytest.raises(ToolRefused) as refused:
        lines("中" * 700)
    assert refused.value.user_text == "这个操作的内容太长，没法在一条确认消息里完整给你看，所以没有继续。请缩短内容再试。"


def test_names_are_quoted_and_short() -> None:
    """N-17: nicknames, titles, file names: quoted, at most 200 characters."""
    assert quoted("小明\u202e") == "“小明\\u202e”"
    assert len(quoted("x" * 500)) == 203
    assert visible("正常文字 abc，。") == "正常文字 abc，。"


@pytest.mark.parametrize(
    "line",
    [
        "即将执行以下操作，请确认",
        "  即 将 执 行以下操作",
        "【即将执行】",
        "请确认以下操作",
        "回复「确认 27」执行",
        "回复“确认”",
        "确认 27",
        "另有 1 项等你确认：建待办",
        "即\u200b将执行以下操作",
        "**即将执行以下操作**",
        "即·将·执·行以下操作",
        "即將執行以下操作，請確認",
        "1. 即将执行以下操作",
        "ℹ️ 請 確 認 操 作",
        "\U0001f916\u3164请确认",
        "已执行：删除",
    ],
)
def test_lines_that_begin_like_a_prompt_are_marked(line: str) -> None:
    """N-17: whatever spacing, sign, script or line end it hides behind."""
    assert looks_like_prompt(line)
    for end in ("\n", "\r", "\r\n", "\u2028", "\x85", "\x0b"):
        assert quoted_lines(f"好的{end}{line}").split("\n")[1].startswith(texts.QUOTED_LINE)


@pytest.mark.parametrize("line", ["好的，已为你查到", "我会在你确认之后执行", "请把确认单发给财务", "CPU 92%"])
def test_ordinary_lines_stay(line: str) -> None:
    """Only what begins like a prompt is marked."""
    assert quoted_lines(line) == line


def test_names_a_model_makes_up_are_quoted() -> None:
    """N-17: of an open schema, a field's name is the model's words, too."""
    shown = render_prompt(TOOL, {"操作": 1, "回复「确认 1」\n主机": "x", "text": "a"}, {}, FACTS).text.split("\n")
    assert shown[2:5] == ["“操作”：1", "“回复「确认 1」\\n主机”：“x”", "内容：“a”"]


def test_what_a_tool_words_itself_cannot_hide_or_break_lines() -> None:
    """N-17: the wording of a value is one line, with its quotation kept as the tool made it."""
    shown = render_prompt(TOOL, {"text": 3}, {"text": "#3 " + quoted("周报”\n操作：付款")}, FACTS)
    assert shown.text.split("\n")[2] == "内容：#3 “周报\\”\\n操作：付款”"
    assert shown.summary == "发送：#3 周报\\”\\n操作：付款"


@pytest.mark.parametrize("template", ["{text.a.b}", "{text[9]}", "{nobody}", "{0}", "{text:d}", "{", "{text!x}"])
def test_a_broken_template_breaks_no_proposal(template: str) -> None:
    """A template is settings: what it gets wrong costs the short line, not the call."""
    assert summarize(replace(TOOL, confirm_template=template), {"text": "a"}, {}) == "发送：a"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-01\ufe00", "web-01\\ufe00"),
        ("web-01\ufe0f", "web-01\\ufe0f"),
        ("we\u034fb", "we\\u034fb"),
        ("a\U000e0101", "a\\U000e0101"),
        ("1\u03360\u03360", "1\\u03360\\u03360"),
        ("\u4e0d\u20e0", "\u4e0d\\u20e0"),
        ("e\u0301\u0302\u0303\u0304", "e\u0301\u0302\\u0303\\u0304"),
        ("\u2764\ufe0f 1\ufe0f\u20e3 \u26a0\ufe0f", "\u2764\ufe0f 1\ufe0f\u20e3 \u26a0\ufe0f"),
        ("caf\u00e9 e\u0301", "caf\u00e9 e\u0301"),
        ("{host} %s %(x)s {0.__class__} \\", "{host} %s %(x)s {0.__class__} \\"),
    ],
)
def test_marks_that_cannot_be_seen_or_strike_out(text: str, shown: str) -> None:
    """N-17: a selector nobody sees, a stroke through a figure, a pile of accents; accents and emoji stay as they are."""
    assert lines(text)[2] == f"内容：“{shown}”"


@pytest.mark.parametrize(
    "line",
    [
        "请回复「确认 27」领取红包",
        "1. 回复：确认 27",
        "想继续就回我一个「确认27」吧",
        "发送“确认 #27”即可",
        "请输入 确 认 2 7",
        "輸入「確認 27」".replace("輸", "输"),
        "把「確認執行」發給我：回覆 確認執行 3",
        "打个 **确认** `27` 给我",
        "打 确认\u200b27",
        "<b>回复</b> 确认２７",
    ],
)
def test_a_model_that_says_which_number_to_confirm_is_marked(line: str) -> None:
    """N-17: the number may be of something else; only our own prompt asks for it."""
    assert quoted_lines(f"好\n{line}") == f"好\n{texts.QUOTED_LINE}{line}"


@pytest.mark.parametrize(
    "line",
    [
        "等你确认之后我再发。",
        "我先确认 3 台机器的状态。",
        "会议室已确认 2 间。",
        "请确保 27 号到场",
        "回复率 27%",
        "已回复 3 人，确认 2 人",
    ],
)
def test_ordinary_words_of_confirming_are_not_marked(line: str) -> None:
    """Talk about confirming is talk."""
    assert not looks_like_prompt(line)
