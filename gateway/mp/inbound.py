"""A decrypted Official Account payload, XML or JSON, becomes one InboundMessage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.protocol import EventName, InboundMessage
from config.schema import MpAccount
from gateway import normal
from gateway.channel import CallbackRejected
from gateway.normal import COMMON_EVENTS, SYSTEM_PEER, Sender, Source
from gateway.payload import id_of, parse

EVENTS: Mapping[str, EventName] = {
    **COMMON_EVENTS,
    "scan": "scan",
    "templatesendjobfinish": "template_result",
    "masssendjobfinish": "mass_result",
    "freepublishjobfinish": "publish_result",
    "subscribe_msg_popup_event": "subscribe_message",
    "subscribe_msg_change_event": "subscribe_message",
    "subscribe_msg_sent_event": "subscribe_message",
    "user_authorization_revoke": "authorization",
    "user_info_modified": "authorization",
    "user_authorization_cancellation": "authorization",
    "kf_create_session": "kf",
    "kf_close_session": "kf",
    "kf_switch_session": "kf",
}


def normalize(
    payload: bytes,
    account: MpAccount,
    tenant_id: str,
    *,
    is_json: bool,
    received_at_ms: int,
    check_recipient: bool = True,
) -> InboundMessage:
    """Parse a decrypted payload. Raises CallbackRejected: bad_xml, bad_json, too_large, wrong_recipient, bad_message."""
    fields = parse(payload, is_json=is_json)
    if check_recipient:
        _check_recipient(fields, account)
    source = Source("mp", account.id, tenant_id, received_at_ms, payload, fields, is_json)
    open_id = id_of(fields, "FromUserName")
    sender = Sender(open_id, "open_id", open_id) if open_id else Sender("", "system", SYSTEM_PEER)
    if id_of(fields, "MsgType").lower() == "event" or ("MsgType" not in fields and "InfoType" in fields):
        return normal.event(source, sender, EVENTS)
    return normal.message(source, sender, bot_name=account.bot_name)


def _check_recipient(fields: Mapping[str, Any], account: MpAccount) -> None:
    """Where the account names its original_id, ToUserName must be it (N-11)."""
    if account.original_id is not None and id_of(fields, "ToUserName") != account.original_id:
        raise CallbackRejected("wrong_recipient", hint="ToUserName is not the account's original_id")
