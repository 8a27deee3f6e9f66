"""Every message and event type the platforms send, weird and hostile ones too, normalizes as its record expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.protocol import InboundMessage
from config.schema import MpAccount, WecomAccount
from gateway import wire
from gateway.channel import CallbackRejected
from gateway.inspect import normalize
from tests.fakes.reference_crypto import NOW_S, mp_account, wecom_account
from tests.shared_data import shared_json

DATA = shared_json("protocol/inbound_messages.json")
NOW_MS = NOW_S * 1000


def _cases(**wanted: str) -> list[Any]:
    """One case a record and platform that may get it."""
    cases = []
    for record in DATA["messages"]:
        if any(record[name] != value for name, value in wanted.items()):
            continue
        for account in (wecom_account(), mp_account()):
            if record["platform"] == "both" or record["platform"].startswith("oa") == isinstance(account, MpAccount):
                cases.append(pytest.param(record, account, id=f"{record['id']}-{account.platform}"))
    return cases


def _normalize(record: dict[str, Any], account: WecomAccount | MpAccount) -> InboundMessage:
    payload = record["raw"].encode()
    return normalize(account, "acme", payload, is_json=record["format"] == "json", received_at_ms=NOW_MS)


def test_no_record_is_left_out() -> None:
    assert len(DATA["messages"]) == DATA["counts"]["total"]
    assert len(_cases(parse="ok")) + len(_cases(parse="error")) >= len(DATA["messages"])


@pytest.mark.parametrize(("record", "account"), _cases(parse="ok"))
def test_expected_fields(record: dict[str, Any], account: WecomAccount | MpAccount) -> None:
    """EVT-05 among them: template_card_event is a typed event."""
    message = _normalize(record, account)
    for name, value in record["expect"].items():
        assert message.fields[name] == value
    assert wire.from_json(json.loads(json.dumps(wire.to_json(message, with_fields=True)))) == message
    again = _normalize(record, account)
    assert again.idempotency_key == message.idempotency_key


@pytest.mark.parametrize(("record", "account"), _cases(parse="error"))
def test_hostile_payloads_are_refused(record: dict[str, Any], account: WecomAccount | MpAccount) -> None:
    with pytest.raises(CallbackRejected) as caught:
        _normalize(record, account)
    assert caught.value.code == "bad_xml"
    assert 400 <= caught.value.status < 500


@pytest.mark.parametrize(("record", "account"), _cases(category="event", parse="ok"))
def test_events_never_carry_text_and_name_themselves(record: dict[str, Any], account: WecomAccount | MpAccount) -> None:
    message = _normalize(record, account)
    assert message.kind == "event"
    assert message.event is not None
    assert message.text == ""
    assert not message.typed
    spelled = record["expect"].get("Event")
    if spelled is not None:
        assert message.event.raw_name == spelled
    known = record["id"] not in ("oa-debug-demo", "weird-event-without-event")
    assert (message.event.name != "other") == known


@pytest.mark.parametrize(("record", "account"), _cases(category="message", parse="ok"))
def test_messages_keep_what_was_typed(record: dict[str, Any], account: WecomAccount | MpAccount) -> None:
    message = _normalize(record, account)
    if record["platform"] != "wecom-aibot":
        assert message.text == record["expect"].get("Content", message.text)
        assert message.message_id == (None if record["id"] == "weird-missing-msgid" else str(message.fields["MsgId"]))
    assert (message.kind == "unsupported") == (record["id"] in ("weird-unknown-msgtype", "aibot-mixed"))
