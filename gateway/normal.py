"""What both platforms' payloads have in common once parsed: kinds, attachments, events, mentions, and the message itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.protocol import Attachment, Event, EventName, IdType, InboundMessage, MessageKind, Platform
from gateway.channel import CallbackRejected
from gateway.payload import as_list, as_text, child, event_key, id_of, message_key, sent_at_ms, stringified, text_of

KINDS: Mapping[str, MessageKind] = {
    "text": "text",
    "image": "image",
    "voice": "voice",
    "video": "video",
    "shortvideo": "video",
    "file": "file",
    "location": "location",
    "link": "link",
}
_ATTACHED: Mapping[str, tuple[str, ...]] = {
    "image": (),
    "voice": ("Format", "MediaId16K", "Recognition"),
    "video": ("ThumbMediaId",),
    "file": ("Title", "Description", "FileKey", "FileMd5", "FileTotalLen"),
    "location": ("Location_X", "Location_Y", "Scale", "Label", "AppType"),
    "link": ("Title", "Description", "PicUrl"),
}
COMMON_EVENTS: Mapping[str, EventName] = {
    "subscribe": "subscribe",
    "unsubscribe": "unsubscribe",
    "location": "location_report",
    "click": "menu_click",
    "view": "menu_view",
    "view_miniprogram": "menu_view",
    "scancode_push": "scan_code",
    "scancode_waitmsg": "scan_code",
    "pic_sysphoto": "pick_photo",
    "pic_photo_or_album": "pick_photo",
    "pic_weixin": "pick_photo",
    "location_select": "pick_location",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a payload came from, and the payload itself as bytes and as fields."""

    platform: Platform
    account_id: str
    tenant_id: str
    received_at_ms: int
    payload: bytes
    fields: Mapping[str, Any]
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent it: the id as spelled, its type, and the id the conversation is keyed by."""

    user_id: str
    id_type: IdType
    peer_id: str


SYSTEM_PEER = "sys"
_AFTER_MENTION = ",，:：、"


def message(source: Source, sender: Sender, *, bot_name: str | None) -> InboundMessage:
    """A person's message from fields in the platforms' common spelling; an unknown type is ``unsupported``.

    A type without a sender is refused (bad_message): nobody could be answered. No type at all is ``unsupported`` too.
    """
    fields = source.fields
    raw_type = id_of(fields, "MsgType")
    if raw_type and not sender.user_id:
        raise CallbackRejected("bad_message", status=400, hint="a message without FromUserName")
    kind = KINDS.get(raw_type.lower(), "unsupported")
    create_time = id_of(fields, "CreateTime")
    message_id = id_of(fields, "MsgId", "MsgID")
    return InboundMessage(
        platform=source.platform,
        account_id=source.account_id,
        tenant_id=source.tenant_id,
        chat_type="single",
        peer_id=sender.peer_id,
        user_id=sender.user_id,
        id_type=sender.id_type,
        kind=kind,
        text=_text(kind, fields, bot_name),
        raw_type=raw_type,
        message_id=message_id or None,
        idempotency_key=message_key(source.account_id, sender.user_id, message_id, create_time, source.payload),
        sent_at_ms=sent_at_ms(create_time, source.received_at_ms),
        received_at_ms=source.received_at_ms,
        typed=kind == "text",
        attachments=_attachments(kind, fields),
        menu_item_id=id_of(fields, "bizmsgmenuid") or None,
        fields=fields,
    )


def event(source: Source, sender: Sender, names: Mapping[str, EventName]) -> InboundMessage:
    """An event from fields in the platforms' common spelling (``Event``, or ``InfoType`` of suites and components)."""
    fields = source.fields
    info_type = id_of(fields, "InfoType")
    raw_name = id_of(fields, "Event") or info_type
    name: EventName = "suite" if info_type and not id_of(fields, "Event") else names.get(raw_name.lower(), "other")
    key = as_text(fields.get("EventKey"))
    task_id = id_of(fields, "TaskId", "TaskID")
    happened = Event(
        name=name,
        raw_name=raw_name,
        key=key or None,
        task_id=task_id or None,
        response_code=id_of(fields, "ResponseCode") or None,
        card_values=_card_values(fields),
        payload=stringified(fields) if source.is_json else fields,
    )
    return event_message(source, sender, happened, create_time=id_of(fields, "CreateTime", "TimeStamp"))


def event_message(source: Source, sender: Sender, happened: Event, *, create_time: str) -> InboundMessage:
    """The message that carries an event."""
    key = f"{happened.key or ''}\0{happened.task_id or ''}"
    return InboundMessage(
        platform=source.platform,
        account_id=source.account_id,
        tenant_id=source.tenant_id,
        chat_type="single",
        peer_id=sender.peer_id,
        user_id=sender.user_id,
        id_type=sender.id_type,
        kind="event",
        text="",
        raw_type="event",
        message_id=None,
        idempotency_key=event_key(source.account_id, sender.user_id, create_time, happened.raw_name, key, source.payload),
        sent_at_ms=sent_at_ms(create_time, source.received_at_ms),
        received_at_ms=source.received_at_ms,
        typed=False,
        event=happened,
        fields=source.fields,
    )


def without_mention(text: str, bot_name: str | None) -> str:
    """The text less a leading ``@bot_name`` and what parts it from the rest; every other ``@word`` stays (CB-21)."""
    if not bot_name or text[:1] not in ("@", "＠") or not text.startswith(bot_name, 1):
        return text
    rest = text[len(bot_name) + 1 :]
    if rest and not rest[0].isspace() and rest[0] not in _AFTER_MENTION:
        return text
    return rest.lstrip().lstrip(_AFTER_MENTION).lstrip()


def _text(kind: MessageKind, fields: Mapping[str, Any], bot_name: str | None) -> str:
    if kind == "text":
        return without_mention(as_text(fields.get("Content")), bot_name)
    if kind == "voice":
        return as_text(fields.get("Recognition"))
    return ""


def _attachments(kind: MessageKind, fields: Mapping[str, Any]) -> tuple[Attachment, ...]:
    if kind not in _ATTACHED:
        return ()
    return (
        Attachment(
            kind=kind,  # type: ignore[arg-type]  # the keys of _ATTACHED are attachment kinds
            media_id=id_of(fields, "MediaId") or None,
            url=(id_of(fields, "Url") if kind == "link" else id_of(fields, "PicUrl")) or None,
            file_name=text_of(fields, "FileName", "Title") or None if kind == "file" else None,
            fields={name: as_text(fields[name]) for name in _ATTACHED[kind] if name in fields},
        ),
    )


def _card_values(fields: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Question key → chosen option ids, whether one or several of either were sent (wecom-card-button-selection)."""
    chosen: dict[str, tuple[str, ...]] = {}
    for item in as_list(child(fields, "SelectedItems").get("SelectedItem")):
        if not isinstance(item, dict):
            continue
        options = [
            as_text(option)
            for ids in as_list(item.get("OptionIds"))
            for option in (as_list(ids.get("OptionId")) if isinstance(ids, dict) else [ids])
        ]
        key = id_of(item, "QuestionKey")
        chosen[key] = (*chosen.get(key, ()), *(option.strip() for option in options if option.strip()))
    return chosen
