"""The lower-case JSON of WeCom's AI bots and customer-service pulls, read so that ``inspect`` can show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.protocol import Attachment, Event, EventName, InboundMessage, MessageKind
from gateway.normal import SYSTEM_PEER, Sender, Source, event_message, without_mention
from gateway.payload import as_list, as_text, child, id_of, message_key, sent_at_ms, stringified

_KINDS: Mapping[str, MessageKind] = {"text": "text", "image": "image", "voice": "voice", "video": "video", "file": "file"}
_EVENTS: Mapping[str, EventName] = {
    "enter_chat": "enter",
    "template_card_event": "card_click",
    "feedback_event": "other",
}


def normalize(source: Source, *, bot_name: str | None) -> InboundMessage:
    """One AI bot message or event; a pull of customer-service messages is one ``kf`` event that carries the list."""
    fields = source.fields
    sender = _sender(fields)
    raw_type = id_of(fields, "msgtype")
    if "msg_list" in fields:
        happened = Event(name="kf", raw_name="sync_msg", payload=stringified(fields))
        return event_message(source, sender, happened, create_time="")
    if raw_type.lower() == "event":
        return _event(source, sender)
    body = child(fields, raw_type)
    kind = _KINDS.get(raw_type.lower(), "unsupported")
    message_id = id_of(fields, "msgid")
    create_time = id_of(fields, "create_time")
    return InboundMessage(
        platform=source.platform,
        account_id=source.account_id,
        tenant_id=source.tenant_id,
        chat_type="group" if id_of(fields, "chattype") == "group" else "single",
        peer_id=_peer(fields, sender),
        user_id=sender.user_id,
        id_type=sender.id_type,
        kind=kind,
        text=without_mention(as_text(body.get("content")), bot_name),
        raw_type=raw_type,
        message_id=message_id or None,
        idempotency_key=message_key(source.account_id, sender.user_id, message_id, create_time, source.payload),
        sent_at_ms=sent_at_ms(create_time, source.received_at_ms),
        received_at_ms=source.received_at_ms,
        typed=kind == "text",
        attachments=_attachments(kind, body),
        fields=fields,
    )


def _sender(fields: Mapping[str, Any]) -> Sender:
    user_id = id_of(child(fields, "from"), "userid")
    if not user_id:
        return Sender("", "system", SYSTEM_PEER)
    return Sender(user_id, "wecom_userid", user_id.lower())


def _peer(fields: Mapping[str, Any], sender: Sender) -> str:
    chat_id = id_of(fields, "chatid") if id_of(fields, "chattype") == "group" else ""
    return chat_id or sender.peer_id


def _event(source: Source, sender: Sender) -> InboundMessage:
    said = child(source.fields, "event")
    raw_name = id_of(said, "eventtype", "event_type")
    card = child(said, raw_name)
    happened = Event(
        name=_EVENTS.get(raw_name.lower(), "other"),
        raw_name=raw_name,
        key=as_text(card.get("event_key") or card.get("eventkey")) or None,
        task_id=id_of(card, "task_id", "taskid") or None,
        card_values={
            id_of(item, "question_key"): tuple(as_text(option) for option in as_list(child(item, "option_ids").get("option_id")))
            for item in as_list(child(card, "selected_items").get("selected_item"))
            if isinstance(item, dict)
        },
        payload=stringified(source.fields),
    )
    message = event_message(source, sender, happened, create_time=id_of(source.fields, "create_time"))
    group = id_of(source.fields, "chattype") == "group"
    return replace(
        message,
        chat_type="group" if group else "single",
        peer_id=_peer(source.fields, sender),
        message_id=id_of(source.fields, "msgid") or None,
    )


def _attachments(kind: MessageKind, body: Mapping[str, Any]) -> tuple[Attachment, ...]:
    url, media_id = id_of(body, "url"), id_of(body, "media_id")
    if kind not in ("image", "voice", "video", "file") or not (url or media_id):
        return ()
    return (Attachment(kind=kind, media_id=media_id or None, url=url or None),)
