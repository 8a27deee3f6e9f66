"""Passive replies, decoded by wechatpy and the reference implementation: what the platform would read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wechatpy.crypto import WeChatCrypto

from gateway import wire, xml
from gateway.channel import CallbackRequest, Opened, Part
from gateway.mp import crypto as mp_crypto
from gateway.mp import inbound as mp_inbound
from gateway.mp import passive as mp_passive
from gateway.wecom import crypto as wecom_crypto
from gateway.wecom import inbound as wecom_inbound
from gateway.wecom import passive as wecom_passive
from tests.fakes import reference_crypto as platform
from tests.fakes.reference_crypto import APP_ID, CORP_ID, KEY, TOKEN, mp_account, wecom_account
from tests.shared_data import shared_json

NOW_MS = 1_700_000_002_345
WECOM_TEXT = xml.build(
    {
        "ToUserName": CORP_ID,
        "FromUserName": "zhangsan",
        "CreateTime": 1,
        "MsgType": "text",
        "Content": "hi",
        "MsgId": 1,
        "AgentID": 1000002,
    }
)
MP_TEXT = xml.build(
    {"ToUserName": "gh_0123456789ab", "FromUserName": "oAbC", "CreateTime": 1, "MsgType": "text", "Content": "hi", "MsgId": 1}
)
MP_JSON = (
    b'{"ToUserName": "gh_0123456789ab", "FromUserName": "oAbC", "CreateTime": 1, "MsgType": "text", "Content": "hi", "MsgId": 1}'
)


def _text(content: str) -> Part:
    return Part("text", {"msgtype": "text", "text": {"content": content}}, content)


def _wecom_reply(part: Part) -> tuple[dict[str, Any], str]:
    """Our reply to a WeCom callback, decrypted by wechatpy, with its content type."""
    account = wecom_account()
    opened = wecom_crypto.open_callback(account, platform.post(WECOM_TEXT, CORP_ID))
    message = wecom_inbound.normalize(opened.payload, account, "acme", is_json=False, received_at_ms=NOW_MS)
    body, content_type = wecom_passive.seal(account, part, message, opened, now_ms=NOW_MS)
    return _decoded(body, CORP_ID), content_type


def _decoded(body: bytes, receive_id: str) -> dict[str, Any]:
    envelope = xml.parse(body)
    assert set(envelope) == {"Encrypt", "MsgSignature", "TimeStamp", "Nonce"}
    assert envelope["TimeStamp"] == "1700000002"
    decoder = WeChatCrypto(TOKEN, KEY, receive_id)
    document = decoder.decrypt_message(body, envelope["MsgSignature"], envelope["TimeStamp"], envelope["Nonce"])
    return xml.parse(document.encode())


def _mp_reply(part: Part, payload: bytes = MP_TEXT, *, is_json: bool = False, mode: str = "safe") -> tuple[bytes, str]:
    account = mp_account(mode=mode)
    content_type = "application/json" if is_json else "text/xml"
    request = platform.plain_post(payload, content_type) if mode == "plain" else platform.post(payload, APP_ID, is_json=is_json)
    opened = mp_crypto.open_callback(account, request)
    message = mp_inbound.normalize(opened.payload, account, "acme", is_json=opened.is_json, received_at_ms=NOW_MS)
    return mp_passive.seal(account, part, message, opened, now_ms=NOW_MS)


def test_a_wecom_text_reply() -> None:
    reply, content_type = _wecom_reply(_text("你好"))
    assert reply == {
        "ToUserName": "zhangsan",
        "FromUserName": CORP_ID,
        "CreateTime": "1700000002",
        "MsgType": "text",
        "Content": "你好",
    }
    assert content_type == "text/xml; charset=utf-8"


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1).filter(str.strip))
def test_any_text_arrives_as_written(text: str) -> None:
    """CB-02, CB-17: whatever length and ``]]>`` it has."""
    assert _wecom_reply(_text(text))[0]["Content"] == text
    assert _decoded(_mp_reply(_text(text))[0], APP_ID)["Content"] == text


def test_the_reply_of_the_field_report() -> None:
    """CB-17: the reply to an encrypted callback is encrypted and parses to the text."""
    assert _wecom_reply(_text("a[b[0]]>1"))[0]["Content"] == "a[b[0]]>1"


def test_a_reply_whose_record_fills_its_blocks() -> None:
    """CB-02: a record of exactly 320 bytes takes a whole block of padding and decrypts."""
    for length in range(1, 65):
        body, _ = _mp_reply(_text("x" * length))
        document, receive_id, pad = platform.decrypt(xml.parse(body)["Encrypt"])
        assert (20 + len(document) + len(APP_ID) + pad) % 32 == 0
        assert (xml.parse(document)["Content"], receive_id) == ("x" * length, APP_ID)


@pytest.mark.parametrize("content", ["", "  \n", None])
def test_an_empty_content_is_never_sent(content: str | None) -> None:
    part = Part("text", {"msgtype": "text", "text": {"content": content}}, "")
    opened = Opened(WECOM_TEXT, True, False, 1)
    message = wecom_inbound.normalize(WECOM_TEXT, wecom_account(), "acme", is_json=False, received_at_ms=NOW_MS)
    assert wecom_passive.seal(wecom_account(), part, message, opened, now_ms=NOW_MS)[0] == b""
    assert _mp_reply(part) == (b"success", "text/plain; charset=utf-8")
    assert not wecom_passive.can_passive(part)
    assert not mp_passive.can_passive(part)


def test_compat_mode_answers_encrypted() -> None:
    body, _ = _mp_reply(_text("好"), mode="compat")
    assert _decoded(body, APP_ID)["Content"] == "好"


def test_plain_mode_answers_plain() -> None:
    body, content_type = _mp_reply(_text("好"), mode="plain")
    assert xml.parse(body)["Content"] == "好"
    assert content_type == "text/xml; charset=utf-8"


def test_json_is_answered_in_kind() -> None:
    body, content_type = _mp_reply(_text("好"), MP_JSON, is_json=True)
    assert content_type == "application/json; charset=utf-8"
    envelope = json.loads(body)
    assert envelope["TimeStamp"] == 1700000002
    document, receive_id, _ = platform.decrypt(envelope["Encrypt"])
    assert envelope["MsgSignature"] == platform.signature(TOKEN, "1700000002", envelope["Nonce"], envelope["Encrypt"])
    assert receive_id == APP_ID
    assert json.loads(document) == {
        "ToUserName": "oAbC", "FromUserName": "gh_0123456789ab", "CreateTime": 1700000002, "MsgType": "text", "Content": "好"
    }  # fmt: skip
    plain, _ = _mp_reply(_text("好"), MP_JSON, is_json=True, mode="plain")
    assert json.loads(plain)["Content"] == "好"


def test_a_stored_message_without_its_fields_is_answered_too() -> None:
    account = mp_account()
    opened = mp_crypto.open_callback(account, platform.post(MP_TEXT, APP_ID))
    message = mp_inbound.normalize(opened.payload, account, "acme", is_json=False, received_at_ms=NOW_MS)
    stored = wire.from_json(wire.to_json(message))
    body, _ = mp_passive.seal(account, _text("好"), stored, opened, now_ms=NOW_MS)
    assert _decoded(body, APP_ID)["FromUserName"] == "gh_0123456789ab"


MEDIA = {"media_id": "media_id"}
ARTICLE = {"title": "title1", "description": "description1", "picurl": "picurl", "url": "url"}
MUSIC = {
    "title": "TITLE",
    "description": "DESCRIPTION",
    "musicurl": "MUSIC_Url",
    "hqmusicurl": "HQ_MUSIC_Url",
    "thumb_media_id": "media_id",
}
MP_SAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("reply-oa-text", {"msgtype": "text", "text": {"content": "你好"}}),
    ("reply-oa-image", {"msgtype": "image", "image": MEDIA}),
    ("reply-oa-voice", {"msgtype": "voice", "voice": MEDIA}),
    ("reply-oa-video", {"msgtype": "video", "video": {**MEDIA, "title": "title", "description": "description"}}),
    ("reply-oa-music", {"msgtype": "music", "music": MUSIC}),
    ("reply-oa-news", {"msgtype": "news", "news": {"articles": [ARTICLE]}}),
    (
        "reply-oa-transfer-customer-service",
        {"msgtype": "transfer_customer_service", "transfer_customer_service": {"kf_account": "test1@test"}},
    ),
]
CARD = {
    "card_type": "text_notice",
    "main_title": {"title": "已处理", "desc": "由 zhangsan 确认"},
    "card_action": {"type": 1, "url": "https://example.com"},
}
WECOM_SAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    ("reply-wecom-update-button", "card_update", {"userids": ["zhangsan"], "button": {"replace_name": "ReplaceName"}}),
    ("reply-wecom-update-template-card", "card_update", {"userids": ["zhangsan"], "template_card": CARD}),
]
_HEADER = ("ToUserName", "FromUserName", "CreateTime")


def _sample(record_id: str) -> dict[str, Any]:
    records = shared_json("protocol/inbound_messages.json")["messages"]
    fields = xml.parse(next(record["raw"] for record in records if record["id"] == record_id).encode())
    return {name: value for name, value in fields.items() if name not in _HEADER}


@pytest.mark.parametrize(("record_id", "payload"), MP_SAMPLES, ids=[sample[0] for sample in MP_SAMPLES])
def test_official_account_replies_equal_the_samples(record_id: str, payload: dict[str, Any]) -> None:
    part = Part(payload["msgtype"], payload, "")
    assert mp_passive.can_passive(part)
    reply = _decoded(_mp_reply(part)[0], APP_ID)
    assert {name: value for name, value in reply.items() if name not in _HEADER} == _sample(record_id)


@pytest.mark.parametrize(("record_id", "kind", "payload"), WECOM_SAMPLES, ids=[sample[0] for sample in WECOM_SAMPLES])
def test_wecom_card_replies_equal_the_samples(record_id: str, kind: str, payload: dict[str, Any]) -> None:
    reply, _ = _wecom_reply(Part(kind, payload, ""))
    assert {name: value for name, value in reply.items() if name not in _HEADER} == _sample(record_id)


@pytest.mark.parametrize(
    "payload", [sample[1] for sample in MP_SAMPLES[1:4]] + [MP_SAMPLES[5][1]], ids=["image", "voice", "video", "news"]
)
def test_wecom_media_replies(payload: dict[str, Any]) -> None:
    """The same documents as an Official Account's (document/path/90241)."""
    part = Part(payload["msgtype"], payload, "")
    wecom, mp = _wecom_reply(part)[0], _decoded(_mp_reply(part)[0], APP_ID)
    assert {name: value for name, value in wecom.items() if name not in _HEADER} == {
        name: value for name, value in mp.items() if name not in _HEADER
    }


def test_lists_of_a_card_are_repeated_elements() -> None:
    card = {
        **CARD,
        "horizontal_content_list": [
            {"keyname": "申请人", "value": "张三"},
            {"keyname": "时间", "value": "今天", "type": 3, "userid": "z"},
        ],
        "jump_list": [{"type": 2, "appid": "wx1", "pagepath": "/p", "title": "看"}],
    }
    shown = _wecom_reply(Part("card_update", {"template_card": card}, ""))[0]["TemplateCard"]
    assert shown["HorizontalContentList"] == [
        {"KeyName": "申请人", "Value": "张三"},
        {"KeyName": "时间", "Value": "今天", "Type": "3", "UserId": "z"},
    ]
    assert shown["JumpList"] == {"Type": "2", "AppId": "wx1", "PagePath": "/p", "Title": "看"}


@pytest.mark.parametrize(
    ("kind", "payload", "wecom", "mp"),
    [
        ("markdown", {"msgtype": "markdown", "markdown": {"content": "x"}}, False, False),
        ("file", {"msgtype": "file", "file": MEDIA}, False, False),
        ("template_card", {"msgtype": "template_card", "template_card": CARD}, False, False),
        ("msgmenu", {"msgtype": "msgmenu", "msgmenu": {"list": []}}, False, False),
        ("image", {"msgtype": "image", "image": {}}, False, False),
        ("news", {"msgtype": "news", "news": {"articles": []}}, False, False),
        ("news", {"msgtype": "news", "news": {"articles": [ARTICLE, ARTICLE]}}, True, False),
        ("music", {"msgtype": "music", "music": MUSIC}, False, True),
        ("music", {"msgtype": "music", "music": {}}, False, False),
        ("transfer_customer_service", {"msgtype": "transfer_customer_service"}, False, True),
        ("card_update", {"response_code": "c"}, False, False),
        ("text", {"text": {"content": "x"}}, True, True),
    ],
)
def test_what_may_travel_in_the_response(kind: str, payload: dict[str, Any], wecom: bool, mp: bool) -> None:
    part = Part(kind, payload, "")
    assert (wecom_passive.can_passive(part), mp_passive.can_passive(part)) == (wecom, mp)


def test_nonces_and_prefixes_are_fresh() -> None:
    bodies = {_mp_reply(_text("同一句"))[0] for _ in range(5)}
    assert len(bodies) == 5


def test_the_platform_opens_our_reply_with_our_own_adapter() -> None:
    """What the simulator does: the reply's envelope is a valid envelope."""
    body, _ = _mp_reply(_text("好"))
    envelope = xml.parse(body)
    query = {"msg_signature": envelope["MsgSignature"], "timestamp": envelope["TimeStamp"], "nonce": envelope["Nonce"]}
    request = CallbackRequest("POST", {name: (value,) for name, value in query.items()}, body)
    assert xml.parse(mp_crypto.open_callback(mp_account(), request).payload)["Content"] == "好"
