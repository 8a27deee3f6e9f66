"""InboundMessage to and from the JSON that is stored in ``inbound.body``."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

from agent.protocol import Attachment, Event, InboundMessage
from config.errors import YizhanError

_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in (InboundMessage, Attachment, Event)}


def to_json(message: InboundMessage, *, with_fields: bool = False) -> dict[str, Any]:
    """A JSON-able dict of every field; the raw platform fields only when asked (they can be large)."""
    data = {name: getattr(message, name) for name in _NAMES[InboundMessage]}
    data["attachments"] = [asdict(item) for item in message.attachments]
    if message.event is not None:
        data["event"] = asdict(message.event if with_fields else replace(message.event, payload={}))
    if not with_fields:
        data["fields"] = {}
    return data


class Unreadable(YizhanError):
    """A stored body is not one this version can read."""

    code = "unreadable"


def from_json(data: dict[str, Any] | None) -> InboundMessage:
    """The message that ``to_json`` stored, here or by a somewhat newer version (fields unknown here are dropped).

    Raises Unreadable.
    """
    try:
        values = _known(InboundMessage, data)
        values["attachments"] = tuple(Attachment(**_known(Attachment, item)) for item in values.get("attachments") or ())
        if values.get("event") is not None:
            event = _known(Event, values["event"])
            event["card_values"] = {key: tuple(chosen) for key, chosen in (event.get("card_values") or {}).items()}
            values["event"] = Event(**event)
        return InboundMessage(**values)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise Unreadable(f"a stored message cannot be read: {type(error).__name__}") from None


def _known(kind: type[Any], data: Any) -> dict[str, Any]:
    names = _NAMES[kind]
    return {key: value for key, value in data.items() if key in names}
