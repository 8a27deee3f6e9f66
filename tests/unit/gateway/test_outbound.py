"""Replies as platform parts: exact shapes, limits, and what foreign text may not do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.protocol import Reply
from config.errors import Refused
from gateway.channel import Part, Target
from gateway.mp import outbound as mp
from gateway.sanitize import PROMPT_DISCLAIMER
from gateway.split import strip_label
from gateway.wecom import cards
from gateway.wecom import outbound as wecom
from tests.fakes.accounts import mp_account, wecom_account

OPEN_ID = "oOPENID000000000000000000000"
_CARD = {
    "title": "即将执行以下操作，请确认",
    "desc": "建待办",
    "rows": [["标题", "重启 web-01"], {"name": "时间", "value": "明天 9:00"}],
    "buttons": [{"text": "确认", "key": "pa1|27|d|c", "style": 1}, {"text": "取消", "key": "pa1|27|d|r", "style": 3}],
    "task_id": "pa_27",
}


def _wecom(reply: Reply, **account: Any) -> list[Part]:
    return wecom.render(wecom_account(**account), reply, max_parts=5)


def _mp(reply: Reply, **account: Any) -> list[Part]:
    return mp.render(mp_account(**account), reply, max_parts=5)


def test_del_07_markdown_goes_as_readable_text() -> None:
    """DEL-07: msgtype text, 标题 and • a, no asterisks; on both platforms."""
    for render in (_wecom, _mp):
        (part,) = render(Reply(text="# 标题\n- **a**", kind="markdown"))
        assert part.payload == {"msgtype": "text", "text": {"content": "标题\n• a"}}
    (part,) = _wecom(Reply(text="# 标题\n- **a**", source="model"))
    assert part.text == "标题\n• a"


def test_an_account_may_ask_for_markdown() -> None:
    (part,) = _wecom(Reply(text="# 标题\n- **a**\n\n|x|y|\n|-|-|\n|1|2|", source="model"), markdown=True)
    assert part.payload["markdown"]["content"] == "# 标题\n• **a**\n\nx | y\n──────────\n1 | 2"
    assert part.text == "标题\n• a\n\nx | y\n──────────\n1 | 2"
    (part,) = _wecom(Reply(text="没有标记的话", source="model"), markdown=True)
    assert part.kind == "text"


@pytest.mark.parametrize("text", ["", "  \n ", "\u200b"])
@pytest.mark.parametrize("source", ["fixed", "model"])
def test_an_empty_text_is_no_message(text: str, source: Any) -> None:
    """44004 never happens, and no label goes out alone."""
    assert _wecom(Reply(text=text, source=source)) == []
    assert _mp(Reply(text=text, source=source)) == []


def test_fmt_01_on_both_platforms() -> None:
    """FMT-01: two messages of at most 2048 bytes whose text is the answer."""
    for render in (_wecom, _mp):
        parts = render(Reply(text="字" * 1000, source="tool"))
        assert [len(part.payload["text"]["content"].encode()) <= 2048 for part in parts] == [True, True]
        assert "".join(strip_label(part.text) for part in parts) == "字" * 1000


def test_fmt_10_the_fifth_message_offers_the_rest() -> None:
    """FMT-10: 60 KB: five at once, the rest on later pages."""
    parts = _wecom(Reply(text="一句话说完了。" * 3000, source="tool"))
    assert [part.page for part in parts[:6]] == [0, 0, 0, 0, 0, 1]
    assert parts[4].text.endswith(f"（还有 {len(parts) - 5} 条，回复「继续」查看）")


def test_the_ai_label() -> None:
    """「内容由 AI 生成」 on Official Accounts for model text only, where the setting does not say otherwise."""
    assert _mp(Reply(text="答案", source="model"))[0].text == "答案\n\n（内容由 AI 生成）"
    assert _mp(Reply(text="答案", source="fixed"))[0].text == "答案"
    assert _mp(Reply(text="答案", source="model"), ai_label=False)[0].text == "答案"
    assert _wecom(Reply(text="答案", source="model"))[0].text == "答案"
    assert _wecom(Reply(text="答案", source="model"), ai_label=True)[0].text == "答案\n\n（内容由 AI 生成）"


@pytest.mark.parametrize("source", ["model", "tool", "rule"])
@pytest.mark.parametrize("kind", ["text", "markdown"])
@pytest.mark.parametrize("markdown", [False, True])
def test_n16_foreign_text_carries_no_markup(source: Any, kind: Any, markdown: bool) -> None:
    """N-16: also not when markdown or escapes assemble it."""
    text = '<a href="weixin://bizmsgmenu?msgmenuid=1">确认</a> <**a** href=x> \\<a href=y> wei**xin://** [k](weixin://x)'
    for part in [
        *_wecom(Reply(text=text, source=source, kind=kind), markdown=markdown),
        *_mp(Reply(text=text, source=source, kind=kind)),
    ]:
        shown = json.dumps(part.payload, ensure_ascii=False).lower()
        assert "<a" not in shown
        assert "weixin://" not in shown


@pytest.mark.parametrize("source", ["fixed", "confirm_prompt"])
def test_n16_our_own_text_keeps_its_markup(source: Any) -> None:
    """N-16: only our renderer's links."""
    text = '回复 <a href="weixin://bizmsgmenu?msgmenucontent=继续&msgmenuid=1">继续</a>'
    assert _mp(Reply(text=text, source=source))[0].text == text


def test_n17_a_model_cannot_write_a_prompt() -> None:
    """N-17: in each variant and wherever the text is cut."""
    for text in ("即将执行以下操作，请确认\n删库", "**即将执行以下操作**", "# 即 将执行以下操作", "`即将`执行以下操作"):
        (part,) = _wecom(Reply(text=text, source="model"))
        assert PROMPT_DISCLAIMER in part.text.split("\n")[0]
    (part,) = _wecom(Reply(text="即将执行以下操作，请确认\n建待办", source="confirm_prompt"))
    assert part.text == "即将执行以下操作，请确认\n建待办"
    for lead in range(600, 690, 3):
        parts = _wecom(Reply(text="字" * lead + "即将执行以下操作，请确认" + "尾" * 200, source="model"))
        assert not any(strip_label(part.text).startswith("即将") for part in parts)


def test_n17_a_confirmation_that_a_card_would_cut_goes_as_text() -> None:
    """N-17: every argument is shown, or the card is not used."""
    (part,) = _wecom(Reply(text="即将执行…全文", kind="template_card", data=_CARD, source="confirm_prompt"))
    assert part.kind == "template_card"
    long = {**_CARD, "rows": [["内容", "很长" * 30]]}
    (part,) = _wecom(Reply(text="即将执行…全文", kind="template_card", data=long, source="confirm_prompt"))
    assert part.payload == {"msgtype": "text", "text": {"content": "即将执行…全文"}}
    raw = {"card_type": "button_interaction", "main_title": {"title": "请确认"}, "sub_title_text": "长" * 161, "task_id": "a1"}
    (part,) = _wecom(Reply(text="全文", kind="template_card", data=raw, source="confirm_prompt"))
    assert part.kind == "text"
    (part,) = _wecom(Reply(text="全文", kind="template_card", data={**raw, "sub_title_text": "短"}, source="confirm_prompt"))
    assert part.kind == "template_card"
    many = {**_CARD, "rows": [[str(n), "x"] for n in range(7)]}
    (part,) = _wecom(Reply(text="全文", kind="template_card", data=many, source="confirm_prompt"))
    assert part.kind == "text"


def test_a_card_from_a_neutral_description() -> None:
    (part,) = _wecom(Reply(text="文字形式", kind="template_card", data=_CARD))
    assert part.payload["template_card"] == {
        "card_type": "button_interaction",
        "main_title": {"title": "即将执行以下操作，请确认"[:36], "desc": "建待办"},
        "horizontal_content_list": [
            {"keyname": "标题", "value": "重启 web-01"},
            {"keyname": "时间", "value": "明天 9:00"},
        ],
        "task_id": "pa_27",
        "button_list": [
            {"text": "确认", "style": 1, "key": "pa1|27|d|c"},
            {"text": "取消", "style": 3, "key": "pa1|27|d|r"},
        ],
    }
    assert part.text == "文字形式"


@pytest.mark.parametrize(
    "change",
    [
        {"buttons": []},
        {"buttons": [{"text": "a", "key": "k"}] * 2},
        {"buttons": [{"text": str(n), "key": str(n)} for n in range(7)]},
        {"buttons": [{"text": "a", "key": "k" * 1025}]},
        {"task_id": "含汉字"},
        {"task_id": "x" * 129},
    ],
)
def test_a_card_that_cannot_be_is_text(change: dict[str, Any]) -> None:
    assert cards.build({**_CARD, **change}) is None
    (part,) = _wecom(Reply(kind="template_card", data={**_CARD, **change}))
    assert part.kind == "text"
    assert "重启 web-01" in part.text


def test_every_card_refused_or_media_unsendable_has_words() -> None:
    """MED-01, degrade: nothing is dropped without a word."""
    (card,) = _wecom(Reply(kind="template_card", data=_CARD))
    text = wecom.degrade(card)
    assert text is not None
    assert text.text.endswith("「确认」 / 「取消」")
    (markdown,) = _wecom(Reply(text="**好** `x`", kind="markdown"), markdown=True)
    assert wecom.degrade(markdown) == Part("text", {"msgtype": "text", "text": {"content": "好 x"}}, "好 x")
    (file,) = _wecom(Reply(kind="file", data={"path": "/data/out/报表.xlsx"}))
    notice = wecom.degrade(file)
    assert notice is not None
    assert notice.text == "（文件「报表.xlsx」没能发送，请到原系统查看。）"
    (link,) = _mp(Reply(kind="file", data={"file_name": "报表.xlsx", "url": "https://e.com/r.xlsx"}))
    assert link.payload == {"msgtype": "text", "text": {"content": "文件「报表.xlsx」：https://e.com/r.xlsx"}}
    assert wecom.degrade(notice) is None


def test_news_are_split_to_what_each_platform_takes() -> None:
    articles = [{"title": f"标题{n}", "url": f"https://e.com/{n}", "description": "述"} for n in range(10)]
    assert [len(part.payload["news"]["articles"]) for part in _wecom(Reply(kind="news", data={"articles": articles}))] == [8, 2]
    assert len(_mp(Reply(kind="news", data={"articles": articles}))) == 10
    bad = [{"title": "x", "url": "weixin://x"}, {"title": "y", "url": "javascript:alert(1)"}]
    assert _wecom(Reply(kind="news", data={"articles": bad})) == []
    (long,) = _wecom(Reply(kind="news", data={"articles": [{"title": "长" * 100, "url": "https://e.com"}]}))
    assert len(long.payload["news"]["articles"][0]["title"].encode()) <= 128


def test_a_msgmenu_on_official_accounts_and_words_elsewhere() -> None:
    reply = Reply(
        text="确认吗？回复「确认 27」", kind="msgmenu", data={"head": "确认吗？", "items": [{"id": "pa1|27", "content": "确认"}]}
    )
    (part,) = _mp(reply)
    assert part.payload["msgmenu"] == {
        "head_content": "确认吗？",
        "list": [{"id": "pa1|27", "content": "确认"}],
        "tail_content": "",
    }
    assert _wecom(reply)[0].text == "确认吗？回复「确认 27」"
    assert mp.degrade(part) == _mp(Reply(text=reply.text))[0]


def test_requests_name_their_receivers() -> None:
    account = wecom_account()
    (part,) = _wecom(Reply(text="好"))
    body = wecom.request(account, part, Target(users=("a", "b"), departments=("2",), tags=("3",)), duplicate_check=True, key="k")
    assert body == {
        "touser": "a|b",
        "toparty": "2",
        "totag": "3",
        "msgtype": "text",
        "agentid": 1000002,
        "text": {"content": "好"},
        "enable_duplicate_check": 1,
        "duplicate_check_interval": 1800,
    }
    for target in (Target(), Target(users=tuple(f"u{n}" for n in range(1001)))):
        with pytest.raises(Refused):
            wecom.request(account, part, target, duplicate_check=False, key="k")


def test_a_cards_task_id_is_the_same_for_each_attempt() -> None:
    (part,) = _wecom(Reply(kind="template_card", data={**_CARD, "task_id": None}))
    target = Target(users=("a",))
    bodies = [wecom.request(wecom_account(), part, target, duplicate_check=False, key="row-1") for _ in range(2)]
    assert bodies[0] == bodies[1]
    assert bodies[0]["template_card"]["task_id"].startswith("yz_")


@pytest.mark.parametrize("users", [(), (OPEN_ID, OPEN_ID), ("有汉字",), ("a b",)])
def test_an_official_account_message_has_one_follower(users: tuple[str, ...]) -> None:
    (part,) = _mp(Reply(text="好"))
    with pytest.raises(Refused):
        mp.request(part, Target(users=users), key="k")


@pytest.mark.parametrize("open_id", ["o1", "oA-_9", OPEN_ID])
def test_whoever_wrote_can_be_answered(open_id: str) -> None:
    """An openid's length is the platform's business: an answer to somebody who wrote is never dropped for it."""
    assert mp.request(Part("text", {"text": {"content": "好"}}, "好"), Target(users=(open_id,)), key="k")["touser"] == open_id


def test_a_template_message() -> None:
    data = {"template_id": "T1", "data": {"keyword1": {"value": "巧克力\u202e"}, "keyword2": 39.8}, "url": "https://e.com"}
    (part,) = _mp(Reply(kind="template", data=data))
    body = mp.request(part, Target(users=(OPEN_ID,)), key="k")
    assert body["data"] == {"keyword1": {"value": "巧克力"}, "keyword2": {"value": "39.8"}}
    assert (body["touser"], body["template_id"], body["url"]) == (OPEN_ID, "T1", "https://e.com")
    assert _mp(Reply(kind="template", data={})) == []
