"""A decrypted WeCom payload becomes one InboundMessage: app messages and events, suites, customer service, AI bots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.protocol import EventName, InboundMessage
from config.schema import WecomAccount
from gateway import normal
from gateway.channel import CallbackRejected
from gateway.normal import COMMON_EVENTS, SYSTEM_PEER, Sender, Source
from gateway.payload import id_of, parse
from gateway.wecom import aibot

SYSTEM_APPROVAL_AGENT = "3010040"
"""The AgentID of the built-in approval app, whose events any app may subscribe to (wecom-sys-approval-change)."""

_EXTERNAL = re.compile(r"wm[A-Za-z0-9_-]{30}")

EVENTS: Mapping[str, EventName] = {
    **COMMON_EVENTS,
    "enter_agent": "enter",
    "template_card_event": "card_click",
    "taskcard_click": "card_click",
    "template_card_menu_event": "card_menu",
    "batch_job_result": "batch_result",
    "change_contact": "contact_change",
    "change_external_contact": "contact_change",
    "change_external_chat": "contact_change",
    "change_external_tag": "contact_change",
    "open_approval_change": "approval_change",
    "sys_approval_change": "approval_change",
    "upload_media_job_finish": "upload_result",
    "close_inactive_agent": "app_state",
    "reopen_inactive_agent": "app_state",
    "inactive_alert": "app_state",
    "low_active_alert": "app_state",
    "switch_workbench_mode": "app_state",
    "security": "security_change",
    "share_agent_change": "share_change",
    "share_chain_change": "share_change",
    "kf_msg_or_event": "kf",
    "kf_account_auth_change": "kf",
}


def normalize(
    payload: bytes,
    account: WecomAccount,
    tenant_id: str,
    *,
    is_json: bool,
    received_at_ms: int,
    check_recipient: bool = True,
) -> InboundMessage:
    """Parse a decrypted payload. Raises CallbackRejected: bad_xml, bad_json, too_large, wrong_agent, bad_message.

    JSON is what AI bots and customer-service pulls speak; a self-built app never gets it, ``inspect`` reads it.
    """
    fields = parse(payload, is_json=is_json)
    source = Source("wecom", account.id, tenant_id, received_at_ms, payload, fields, is_json)
    if "MsgType" not in fields and ("msgtype" in fields or "msg_list" in fields):
        return aibot.normalize(source, bot_name=account.bot_name)
    is_event = id_of(fields, "MsgType").lower() == "event" or ("MsgType" not in fields and "InfoType" in fields)
    if check_recipient:
        _check_agent(fields, account, is_event=is_event)
    sender = _sender(fields, is_event=is_event)
    if is_event:
        return normal.event(source, sender, EVENTS)
    return normal.message(source, sender, bot_name=account.bot_name)


def _check_agent(fields: Mapping[str, Any], account: WecomAccount, *, is_event: bool) -> None:
    """A present AgentID is the account's own (N-11); the system approval app's events and an absent one pass."""
    agent_id = id_of(fields, "AgentID")
    if agent_id in ("", str(account.agent_id)) or (is_event and agent_id == SYSTEM_APPROVAL_AGENT):
        return
    raise CallbackRejected("wrong_agent", hint="the callback URL of another app points at this account")


def _sender(fields: Mapping[str, Any], *, is_event: bool) -> Sender:
    user_id = id_of(fields, "FromUserName")
    if not user_id or (is_event and user_id.lower() == SYSTEM_PEER):
        return Sender(user_id, "system", SYSTEM_PEER)
    if _EXTERNAL.fullmatch(user_id):
        return Sender(user_id, "external_userid", user_id.lower())
    return Sender(user_id, "wecom_userid", user_id.lower())
