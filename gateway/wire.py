"""InboundMessage to and from the JSON that is stored in ``inbound.body``."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

from agent.protocol import Attachment, Event, InboundMessage

_NAMES = tuple(field.name for field in fields(InboundMessage))


def to_json(message: InboundMessage, *, with_fields: bool = False) -> dict[str, Any]:
    """A JSON-able dict of every field; the raw platform fields only when asked (they can be large)."""
    data = {name: getattr(message, name) for name in _NAMES}
    data["attachments"] = [asdict(item) for item in message.attachments]
    if message.event is not None:
        data["event"] = asdict(message.event if with_fields else replace(message.event, payload={}))
    if not with_fields:
        data["fields"] = {}
    return data


def from_json(data: dict[str, Any]) -> InboundMessage:
    """The message that ``to_json`` stored."""
    values = dict(data)
    values["attachments"] = tuple(Attachment(**item) for item in values.get("attachments") or ())
    if values.get("event") is not None:
        event = dict(values["event"])
        event["card_values"] = {key: tuple(chosen) for key, chosen in (event.get("card_values") or {}).items()}
        values["event"] = Event(**event)
    return InboundMessage(**values)
