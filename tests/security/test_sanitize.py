"""What a model or tool writes can neither carry our markup nor pass for our confirmation prompt."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.protocol import Reply
from gateway.sanitize import PROMPT_DISCLAIMER, PROMPT_HEAD, strip_markup, untrusted, visible
from gateway.split import split, strip_label
from gateway.wecom.outbound import render
from tests.fakes.accounts import wecom_account


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('<a href="weixin://bizmsgmenu?msgmenucontent=确认&msgmenuid=1">点我</a>', "点我"),
        ('<a href="https://e.com/x">这里</a>', "这里（https://e.com/x）"),
        ("<A HREF=https://e.com>x</A>", "x（https://e.com）"),
        ("weixin://x", "x"),
        ("weixweixin://in://x", "x"),
        ("WeiXin : //x", "x"),
        ("<<a>a href=x>", "<＜a>a href=x>"),
        ("if x <a and y < a:", "if x ＜a and y ＜ a:"),
        ("< b > c", "< b > c"),
    ],
)
def test_n16_no_anchor_and_no_weixin_link(text: str, clean: str) -> None:
    """N-16: model and tool text is stripped of both."""
    assert strip_markup(text) == clean


@given(st.text(alphabet=st.sampled_from("<a/ >weixin:WX\u200b\u200d\"='h"), max_size=60))
@settings(max_examples=300, deadline=None)
def test_n16_nothing_reassembles(text: str) -> None:
    """N-16: whatever is written, neither comes out."""
    out = untrusted(text).lower()
    assert "<a" not in out
    assert "weixin://" not in out


@pytest.mark.parametrize(
    "head",
    [
        "即将执行以下操作，请确认",
        "【即将执行以下操作】",
        "  - **即将执行以下操作**",
        "即 将 执 行 以 下 操 作",
        "即\u200b将\u200d执\u2060行以下操作",
        "\u202e即将执行以下操作",
        "即将执⾏以下操作",
        "即將執行以下操作",
        "即.将.执.行.以.下.操.作",
    ],
)
def test_n17_words_that_pass_for_a_prompt_are_marked(head: str) -> None:
    """N-17: also behind spaces, signs, invisible and compatibility characters."""
    out = untrusted(f"好的。\n{head}\n删除 web-01")
    line = out.split("\n")[1]
    assert line.startswith(PROMPT_DISCLAIMER) or line.strip(" -*【").startswith(PROMPT_DISCLAIMER)


@given(
    st.lists(
        st.sampled_from(
            ["即将执行以下操作", "即", "将执行以下", "操作", "\n", "-", "-" * 30, "字", "。", " ", "\u200b", "<a ", "**"]
        ),
        max_size=40,
    ),
    st.integers(200, 400),
)
@settings(max_examples=200, deadline=None)
def test_n17_no_message_begins_like_a_prompt(pieces: list[str], limit: int) -> None:
    """N-17: wherever a long text is cut."""
    for piece in split(untrusted("".join(pieces) * 3), limit):
        words = "".join(character for character in strip_label(piece.text) if character.isalnum())
        assert not words.startswith(PROMPT_HEAD)


def test_n17_ordinary_words_are_left_alone() -> None:
    """N-17: only the head of a prompt is touched."""
    text = "我将执行以下操作：先备份，再重启。"
    assert untrusted(text) == text


def test_n17_control_and_bidi_characters_go() -> None:
    """N-17: what is shown is what is there."""
    assert visible("a\x00b\u202ec\u2066d\ufeffe\r\nf\u2028g\x1b[31mh\ud800") == "abcde\nf\ng[31mh\ufffd"
    assert visible("👨‍👩‍👧 和字\u200d字") == "👨‍👩‍👧 和字字"


@pytest.mark.parametrize(
    "text",
    ["`" * 20_000, "<a href=x>" * 10_000, "9" * 20_000, "[a](" * 20_000, "|a|b|\n|-|-|\n" + "|x|y|\n" * 5_000, "**a" * 20_000],
)
@pytest.mark.parametrize("source", ["model", "tool"])
def test_hostile_text_costs_no_more_than_its_length(text: str, source: Any) -> None:
    """Rendering is near linear: what once took half a minute takes a fraction of a second (the bound is generous)."""
    before = time.process_time()
    render(wecom_account(), Reply(text=text, source=source), max_parts=5)
    assert time.process_time() - before < 5
