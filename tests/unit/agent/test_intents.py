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


_WORDS = (  # noqa: SIM905
    "确认|确定|执行|同意|批准|取消|拒绝|好的|好|可以|行|嗯|是|是的|对|没问题|OK|ok|不用|不行|不要|不是|算了|通过|正确|放弃"
).split("|")
_AFTER = (  # noqa: SIM905
    "订单状态|收货地址了吗|一下时间|单在哪里看|过的那个会议|，但是先别动|，不过要改成三点|"
    "还是不行呢|的话告诉我一声|就发给李四|之前先备份|了三次都没收到短信|率是多少|按钮点不动|"
    "这张车票的手续费|预订的房间|函数里的循环|一个测试用例|这条 SQL 要多久|吧？|"
    "，那家店几点关门|，我想订两位靠窗的|，再帮我查一下酒店|，有没有早一点的高铁|，退款多久到账|"
    "，把日志发我看看|不了|不得|性|是什么意思"
).split("|")
_BEFORE = (  # noqa: SIM905
    "怎么|为什么要|谁能|我还没|客服说|能不能|请|如果你|等老板|我觉得|他说|她没|帮我|"
    "要不要|已经|需要我|是不是要|麻烦再|明天再|系统提示|页面上写着|这个能|餐厅让我|"
    "12306 叫我|代码里写的是|酒店前台要我|刚才那个|第二步才"
).split("|")


def test_no_sentence_around_a_word_of_decision_decides() -> None:
    """C34: whatever stands before or after the word, in a restaurant, a hotel, a train, a shop or a program, is talk."""
    sentences = [f"{word}{after}" for word in _WORDS for after in _AFTER]
    sentences += [f"{before}{word}" for word in _WORDS for before in _BEFORE]
    sentences += [f"{before}{word}{after}" for word in _WORDS[:8] for before in _BEFORE[:6] for after in _AFTER[:6]]
    assert len(sentences) > 1500
    assert [text for text in sentences if kind(text) in ("confirm", "reject")] == []


@pytest.mark.parametrize("text", ["确认 2 项", "取消3条", "执行 2 条", "确认3个", "同意 5 条", "确认 2 份", "取消两张"])
def test_how_many_is_not_which(text: str) -> None:
    """CNF-02: 2 项 counts; only 第 2 项 names one."""
    assert kind(text) is None
    assert read_decision("确认第 2 项") == Decision("confirm", number=2)
    assert read_decision("第2项确认") == Decision("confirm", number=2)
