"""Any signed payload at all: a message that can be stored, or a typed refusal; never another exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import wire
from gateway.channel import CallbackRejected
from gateway.inspect import normalize
from gateway.xml import build
from tests.fakes.reference_crypto import mp_account, wecom_account

NAMES = (
    *(
        "MsgType",
        "Event",
        "InfoType",
        "FromUserName",
        "ToUserName",
        "CreateTime",
        "MsgId",
        "MsgID",
        "AgentID",
        "Content",
        "EventKey",
    ),
    *(
        "TaskId",
        "SelectedItems",
        "SelectedItem",
        "QuestionKey",
        "OptionIds",
        "OptionId",
        "MediaId",
        "PicUrl",
        "Recognition",
        "Encrypt",
    ),
    *(
        "msgtype",
        "msg_list",
        "from",
        "userid",
        "chattype",
        "chatid",
        "text",
        "content",
        "event",
        "eventtype",
        "template_card_event",
    ),
    *("selected_items", "selected_item", "option_ids", "option_id", "url", "bizmsgmenuid", "Format", "FileName", "Title"),
)
WORDS = st.sampled_from(
    ["text", "image", "voice", "file", "event", "template_card_event", "enter_chat", "group", "sys", "1700000000"]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20) | WORDS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6), max_leaves=20
)
PAYLOADS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12)
ACCOUNTS = (wecom_account(bot_name="小助手"), mp_account())


def _outcome(payload: bytes, *, is_json: bool) -> None:
    for account in ACCOUNTS:
        try:
            message = normalize(account, "acme", payload, is_json=is_json, received_at_ms=1_700_000_000_000)
        except CallbackRejected as rejected:
            if not 400 <= rejected.status < 500:
                raise
            continue
        stored = json.dumps(wire.to_json(message, with_fields=True), ensure_ascii=False, allow_nan=False)
        assert b"\x00" not in stored.encode()
        assert wire.from_json(json.loads(stored)) == message
        assert len(message.idempotency_key) < 120
        assert message.peer_id
        assert (message.event is not None) == (message.kind == "event")


@settings(max_examples=300, deadline=None)
@given(PAYLOADS)
def test_any_json(payload: dict[str, Any]) -> None:
    _outcome(json.dumps(payload).encode(), is_json=True)


def _spelled(value: Any) -> Any:
    """The same tree in what XML can say."""
    if isinstance(value, dict):
        return {name: _spelled(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item) for item in value if not isinstance(item, list)]
    return "" if value is None else str(value)


@settings(max_examples=200, deadline=None)
@given(PAYLOADS)
def test_any_xml(payload: dict[str, Any]) -> None:
    _outcome(build(_spelled(payload)), is_json=False)
