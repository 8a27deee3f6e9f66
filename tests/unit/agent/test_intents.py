"""The whole-message decision reader: what decides, and the much longer list of what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.intents import Decision, read_decision
from tests.shared_data import shared_json


def kind(text: str) -> str | None:
    """What the message decides."""
    found = read_decision(text)
    return None if found is None else found.kind


def test_no_ordinary_utterance_decides() -> None:
    """C34: 0 of 3,545 ordinary utterances confirm or reject."""
    utterances = shared_json("data/confirm/ordinary_utterances_zh.json")["utterances"]
    assert [text for text in utterances if kind(text) in ("confirm", "reject")] == []


def test_plain_yes_and_no_are_understood_and_mixed_sentences_are_not() -> None:
    """Plain yes and no: at least 90 %; a sentence with a comma or quotes decides nothing."""
    cases = shared_json("data/confirm/boolean_zh.json")["cases"]
    mixed = [case for case in cases if any(mark in case["text"] for mark in '，,"“”')]
    plain = [case for case in cases if case not in mixed]
    assert [case["text"] for case in mixed if kind(case["text"]) in ("confirm", "reject")] == []
    right = [case for case in plain if kind(case["text"]) == ("confirm" if case["value"] else "reject")]
    assert len(right) / len(plain) >= 0.9


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("确认", Decision("confirm")),
        (" 确认！ ", Decision("confirm")),
        ("確認", Decision("confirm")),
        ("执行", Decision("confirm")),
        ("/approve", Decision("confirm")),
        ("确认 27", Decision("confirm", number=27)),
        ("确认27", Decision("confirm", number=27)),
        ("确认#27", Decision("confirm", number=27)),
        ("确认 ＃２７", Decision("confirm", number=27)),
        ("27 确认", Decision("confirm", number=27)),
        ("同意 27", Decision("confirm", number=27)),
        ("@机器人 确认 12", Decision("confirm", number=12)),
        ("确认 27 4821", Decision("confirm", number=27, code="4821")),
        ("好的", Decision("confirm", strength="weak")),
        ("ＯＫ", Decision("confirm", strength="weak")),
        ("嗯嗯", Decision("confirm", strength="weak")),
        ("👌🏾 可以", Decision("confirm", strength="weak")),
        ("👍🏻", Decision("confirm", strength="weak")),
        ("取消", Decision("reject")),
        ("取消 27", Decision("reject", number=27)),
        ("别执行", Decision("reject")),
        ("不行", Decision("reject", strength="weak")),
        ("👎", Decision("reject", strength="weak")),
        ("全部取消", Decision("reject", all=True)),
        ("全部确认", Decision("confirm", all=True)),
        ("改成后天", Decision("edit", edit_text="后天")),
        ("改为3台", Decision("edit", edit_text="3台")),
        ("27 改成后天", Decision("edit", number=27, edit_text="后天")),
        ("时间改到明天下午", Decision("edit", edit_text="时间改到明天下午")),
        ("把标题改成“周报 Final”", Decision("edit", edit_text="把标题改成“周报 Final”")),
    ],
)
def test_reads(text: str, decision: Decision) -> None:
    """CNF-01: explicit words, numbers, codes, mentions, full-width and traditional forms."""
    assert read_decision(text) == decision


@pytest.mark.parametrize(
    "text",
    [
        "好的吧？",
        "可以吗",
        "可以么",
        "确认吗",
        "确认?",
        "确认？！",
        "取消？",
        "先不要",
        "等等",
        "等一下",
        "再说",
        "确认一下时间",
        "确认订单",
        "我确认过了",
        "帮我确认一下",
        "行李",
        "行程",
        "好吃",
        "好贵",
        "可以走了",
        "对了",
        "是不是",
        "行不行",
        "可不可以",
        "好不好",
        "不确定",
        "没",
        "继续",
        "1",
        "27",
        "嗯……",
        "嗯...",
        "好。。。",
        "“确认”",
        "「确认 27」",
        "好的，谢谢",
        "确认，取消",
        "确认27号",
        "确认 27 和 28",
        "确认 27 482",
        "确认 27 48211",
        "取消订单",
        "取消明天的会",
        "执行力",
        "同意书",
        "不要确认",
        "别确认",
        "不是不行",
        "如果可以",
        "好的话",
        "中国",
        "中行",
        "成都",
        "okra",
        "nope nope nope nope nope nope nope",
        "知道了",
        "收到",
        "明白",
        "好 的",
        "行 李",
        "改主意了",
        "改成",
        "不要改成后天",
        "改成3台可以吗",
        "@所有人",
        "@张三",
        "/",
        "#27",
        "确认\u202e27",
    ],
)
def test_decides_nothing(text: str) -> None:
    """CNF-02 CNF-07 N-16: near misses, questions, hesitation, other words with the same beginning."""
    assert read_decision(text) is None


@given(st.text(max_size=60))
def test_never_raises_and_questions_never_decide(text: str) -> None:
    """N-16: ?, ？ and 吗 never grant."""
    read_decision(text)
    for question in (text + "?", text + "？", text + "吗", text + "吗。"):
        assert kind(question) in (None,)


@given(st.text(min_size=1, max_size=30), st.sampled_from(["确认", "好的", "取消", "可以", "OK"]))
def test_a_word_inside_a_sentence_is_not_the_word(text: str, word: str) -> None:
    """C34: Han characters around a word make another message."""
    assert kind(f"我说{word}{text}") in (None, "edit")


def test_long_texts_are_not_read() -> None:
    """A message of many lines is a message, not a word."""
    assert read_decision("确认" + " " * 500 + "27") is None
    assert read_decision("好的 " * 100) is None
