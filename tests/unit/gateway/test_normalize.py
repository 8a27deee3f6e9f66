"""Normalization in the cases that went wrong elsewhere: identities, keys for redelivery, recipients, mentions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.protocol import InboundMessage
from gateway.channel import CallbackRejected
from gateway.mp import inbound as mp_inbound
from gateway.wecom import inbound as wecom_inbound
from gateway.xml import build
from tests.fakes.reference_crypto import mp_account, wecom_account

FIXTURES = Path(__file__).parents[2] / "fixtures" / "callbacks"
NOW_MS = 1_700_000_123_456
BASE = {"ToUserName": "ww0123456789abcdef", "FromUserName": "ZhangSan", "CreateTime": 1700000000}
TEXT = {**BASE, "MsgType": "text", "Content": "你好", "MsgId": 24000000000000001, "AgentID": 1000002}
CLICK = {**BASE, "MsgType": "event", "Event": "click", "EventKey": "a", "AgentID": 1000002}


def wecom(fields: dict[str, Any] | bytes, **account: Any) -> InboundMessage:
    payload = fields if isinstance(fields, bytes) else build(fields)
    return wecom_inbound.normalize(payload, wecom_account(**account), "acme", is_json=False, received_at_ms=NOW_MS)


def mp(fields: dict[str, Any], *, is_json: bool = False, **account: Any) -> InboundMessage:
    payload = json.dumps(fields).encode() if is_json else build(fields)
    return mp_inbound.normalize(payload, mp_account(**account), "acme", is_json=is_json, received_at_ms=NOW_MS)


def _code(fields: dict[str, Any], **account: Any) -> str:
    with pytest.raises(CallbackRejected) as caught:
        (mp if "original_id" in account else wecom)(fields, **account)
    return caught.value.code


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def test_a_message_field_by_field() -> None:
    message = wecom(TEXT)
    assert (message.platform, message.account_id, message.tenant_id) == ("wecom", "wecom-main", "acme")
    assert (message.kind, message.raw_type, message.text, message.typed) == ("text", "text", "你好", True)
    assert (message.user_id, message.peer_id, message.id_type, message.subject_kind) == (
        "ZhangSan",
        "zhangsan",
        "wecom_userid",
        "user",
    )
    assert (message.sent_at_ms, message.received_at_ms) == (1_700_000_000_000, NOW_MS)
    assert message.message_id == "24000000000000001"


def test_ids_stay_strings() -> None:
    """CB-20: leading zeros survive; WeCom ids are compared without case, shown as spelled; open_ids keep their case."""
    assert wecom({**TEXT, "FromUserName": "0020001"}).user_id == "0020001"
    assert wecom({**TEXT, "FromUserName": "0020001"}).peer_id == "0020001"
    follower = mp({**TEXT, "FromUserName": "oAbC"})
    assert (follower.user_id, follower.peer_id, follower.id_type, follower.subject_kind) == (
        "oAbC",
        "oAbC",
        "open_id",
        "customer",
    )
    external = wecom({**TEXT, "FromUserName": "wmAJ2GCAAAme1XQRC-NI-q0_ZM9ukoAw"})
    assert (external.id_type, external.subject_kind) == ("external_userid", "customer")


@pytest.mark.parametrize("bot_name", [None, "H3", "小助手"])
def test_mentions_that_are_not_ours_stay(bot_name: str | None) -> None:
    """CB-21."""
    for text in ("会议用 @H323 接入", "@H323 接入", "@小助手2 你好", "你好 @小助手 在吗"):
        assert wecom({**TEXT, "Content": text}, bot_name=bot_name).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("@小助手 帮我", "帮我"),
        ("@小助手\u2005\n  帮我 ", "帮我 "),
        ("@小助手", ""),
        ("@小助手，帮我", "帮我"),
        ("＠小助手: 帮我", "帮我"),
    ],
)
def test_our_own_mention_at_the_start_goes(text: str, left: str) -> None:
    """CB-21: only where the settings give the bot a name."""
    assert wecom({**TEXT, "Content": text}, bot_name="小助手").text == left
    assert wecom({**TEXT, "Content": text}).text == text


def test_message_ids_are_the_same_in_json_and_xml() -> None:
    """OA5-12: the same MsgId as number, as text and in XML is one message."""
    number = mp(TEXT, is_json=True)
    text = mp({**TEXT, "MsgId": "24000000000000001", "CreateTime": "1700000000"}, is_json=True)
    keys = {number.idempotency_key, text.idempotency_key, mp(TEXT).idempotency_key}
    assert len(keys) == 1
    assert number.message_id == text.message_id == "24000000000000001"
    assert number.fields["MsgId"] == 24000000000000001


def test_two_events_of_one_second_differ() -> None:
    """DUP-03."""
    keys = {wecom({**CLICK, "EventKey": key}).idempotency_key for key in ("a", "b", "ab")}
    assert len(keys) == 3
    assert wecom(CLICK).idempotency_key == wecom(CLICK).idempotency_key


def test_two_system_events_of_one_second_differ() -> None:
    """DUP-04: the body is part of an event's key."""
    change = {**BASE, "FromUserName": "sys", "MsgType": "event", "Event": "change_contact", "ChangeType": "create_user"}
    first, second = wecom({**change, "UserID": "a"}), wecom({**change, "UserID": "b"})
    assert first.idempotency_key != second.idempotency_key
    assert (first.id_type, first.peer_id, first.user_id) == ("system", "sys", "sys")


@pytest.mark.parametrize("fields", [_without(CLICK, "MsgId"), _without(TEXT, "MsgId"), _without(TEXT, "MsgId", "CreateTime")])
def test_without_a_message_id_the_key_is_deterministic(fields: dict[str, Any]) -> None:
    """DUP-06."""
    first, again = wecom(fields), wecom(fields)
    assert first.idempotency_key == again.idempotency_key
    assert first.message_id is None
    changed = wecom({**fields, "Content": "别的", "EventKey": "b"})
    assert changed.idempotency_key != first.idempotency_key


def test_keys_of_different_messages_differ() -> None:
    changes = [{}, {"MsgId": 2}, {"FromUserName": "lisi"}, {"CreateTime": 1700000001}, {"MsgId": ""}]
    keys = {wecom({**TEXT, **change}).idempotency_key for change in changes}
    keys |= {wecom(TEXT, id="other").idempotency_key}
    assert len(keys) == len(changes) + 1
    assert wecom({**TEXT, "MsgId": "9" * 5000}).idempotency_key != wecom({**TEXT, "MsgId": "9" * 5001}).idempotency_key
    assert max(map(len, keys)) < 120


@pytest.mark.parametrize("spelled", ["", "0", "-5", "99999999999999", "9" * 5000, "soon", "１７", "1.5", "4102444800"])
def test_impossible_times_become_the_time_of_arrival(spelled: str) -> None:
    message = wecom({**TEXT, "CreateTime": spelled})
    assert message.sent_at_ms == NOW_MS
    assert wecom(_without(TEXT, "CreateTime")).sent_at_ms == NOW_MS


@pytest.mark.parametrize("agent_id", ["1000002", "", " 1000002 ", None])
def test_our_own_agent_passes(agent_id: str | None) -> None:
    """N-11: an absent or empty AgentID passes (contact changes, customer service)."""
    for fields in (TEXT, CLICK):
        given = _without(fields, "AgentID") if agent_id is None else {**fields, "AgentID": agent_id}
        assert wecom(given).user_id == "ZhangSan"


@pytest.mark.parametrize("agent_id", ["1000003", "01000002", "10000020", "x"])
def test_another_agent_is_refused(agent_id: str) -> None:
    """N-11: a present AgentID must be the account's, for messages and events."""
    assert _code({**TEXT, "AgentID": agent_id}) == "wrong_agent"
    assert _code({**CLICK, "AgentID": agent_id}) == "wrong_agent"


def test_the_system_approval_app_is_the_exception() -> None:
    """N-11: 3010040 passes for events only."""
    event = {**BASE, "FromUserName": "sys", "MsgType": "event", "Event": "sys_approval_change", "AgentID": 3010040}
    assert wecom(event).event is not None
    assert _code({**TEXT, "AgentID": 3010040}) == "wrong_agent"


def test_the_original_id_is_checked_where_it_is_known() -> None:
    """N-11."""
    ours = {**TEXT, "ToUserName": "gh_0123456789ab"}
    assert mp(ours, original_id="gh_0123456789ab").text == "你好"
    assert mp(TEXT).text == "你好"
    assert _code(TEXT, original_id="gh_0123456789ab") == "wrong_recipient"
    assert _code(_without(ours, "ToUserName"), original_id="gh_0123456789ab") == "wrong_recipient"


def test_inspection_checks_no_recipient() -> None:
    wrong = build({**TEXT, "AgentID": 5})
    message = wecom_inbound.normalize(wrong, wecom_account(), "acme", is_json=False, received_at_ms=NOW_MS, check_recipient=False)
    assert message.fields["AgentID"] == "5"


def test_a_message_from_nobody_is_refused() -> None:
    assert _code(_without(TEXT, "FromUserName")) == "bad_message"


def test_repeated_elements_take_the_first() -> None:
    message = wecom(b"<xml><MsgType>text</MsgType><FromUserName>a</FromUserName><Content>1</Content><Content>2</Content></xml>")
    assert message.text == "1"
    assert message.fields["Content"] == ["1", "2"]


def test_a_card_click_is_typed() -> None:
    """EVT-05: task id, response code, key as spelled, every chosen option."""
    message = wecom((FIXTURES / "wecom_vote_card.xml").read_bytes())
    assert message.event is not None
    assert (message.event.name, message.event.raw_name, message.event.key) == (
        "card_click",
        "template_card_event",
        "pa1|confirm ",
    )
    assert (message.event.task_id, message.event.response_code) == ("task-1", "code-1")
    assert message.event.card_values == {"lunch": ("rice", "noodles")}
    assert (message.user_id, message.peer_id) == ("LiSi", "lisi")


def test_voice_is_not_typed_text() -> None:
    """N-16: what recognition heard is text that nobody typed."""
    heard = mp({**BASE, "MsgType": "voice", "MediaId": "m", "Format": "amr", "Recognition": " 确认 ", "MsgId": 1})
    assert (heard.text, heard.typed, heard.attachments[0].media_id) == (" 确认 ", False, "m")
    assert heard.attachments[0].fields == {"Format": "amr", "Recognition": " 确认 "}
    silent = wecom((FIXTURES / "wecom_voice_note.xml").read_bytes())
    assert (silent.text, silent.kind) == ("", "voice")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"MsgType": "image", "MediaId": "m", "PicUrl": "http://p"}, ("image", "m", "http://p", None)),
        ({"MsgType": "shortvideo", "MediaId": "m", "ThumbMediaId": "t"}, ("video", "m", None, None)),
        ({"MsgType": "file", "MediaId": "m", "FileName": "周报.xlsx"}, ("file", "m", None, "周报.xlsx")),
        ({"MsgType": "file", "Title": "a.zip", "FileKey": "k"}, ("file", None, None, "a.zip")),
        ({"MsgType": "link", "Url": "https://e.com/?a=1&b=2", "Title": "T"}, ("link", None, "https://e.com/?a=1&b=2", None)),
        ({"MsgType": "location", "Location_X": "23.1", "Label": " 广州"}, ("location", None, None, None)),
    ],
)
def test_attachments(fields: dict[str, Any], expected: tuple[object, ...]) -> None:
    message = wecom({**BASE, "MsgId": 1, **fields})
    (attachment,) = message.attachments
    assert (attachment.kind, attachment.media_id, attachment.url, attachment.file_name) == expected
    assert message.kind == attachment.kind
    assert not message.typed


def test_a_menu_click_keeps_its_item() -> None:
    message = mp({**BASE, "MsgType": "text", "Content": "满意", "bizmsgmenuid": "101", "MsgId": 1})
    assert (message.text, message.menu_item_id, message.typed) == ("满意", "101", True)


def test_json_events_have_text_payloads() -> None:
    payload = (FIXTURES / "mp_scan.json").read_bytes()
    message = mp_inbound.normalize(payload, mp_account(), "acme", is_json=True, received_at_ms=NOW_MS)
    assert message.event is not None
    assert (message.event.name, message.event.key, message.event.payload["EventKey"]) == ("scan", "4711", "4711")
    assert message.fields["EventKey"] == 4711


@pytest.mark.parametrize("raw_type", ["hologram", "", "TEXT ", "Text"])
def test_types_nobody_knows_are_unsupported(raw_type: str) -> None:
    message = wecom({**TEXT, "MsgType": raw_type})
    assert message.kind == ("text" if raw_type.strip().lower() == "text" else "unsupported")
    assert message.raw_type == raw_type.strip()
