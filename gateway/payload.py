"""Reading a decrypted payload: JSON or XML into plain fields, fields into text, ids, times and idempotency keys."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from gateway import xml
from gateway.channel import CallbackRejected

_LATEST_S = 4_102_444_800
"""The year 2100: a CreateTime beyond it is a mistake."""

_ESCAPED_UNSTORABLE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def parse(payload: bytes, *, is_json: bool) -> dict[str, Any]:
    """The payload's fields by platform name. Raises CallbackRejected: bad_xml, bad_json, too_large."""
    return parse_json(payload) if is_json else xml.parse(payload)


def looks_like_json(body: bytes) -> bool:
    """Whether the first character, after a byte order mark and white space, opens a JSON object or array."""
    return body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def parse_json(data: bytes) -> dict[str, Any]:
    """A JSON object with exact integers. Lone surrogates and NULs, which no database takes, become U+FFFD.

    Raises CallbackRejected: too_large beyond 256 KiB, bad_json for anything that is not one object in UTF-8.
    """
    if len(data) > xml.MAX_BYTES:
        raise CallbackRejected("too_large", status=413, hint=f"the body is larger than {xml.MAX_BYTES} bytes")
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise CallbackRejected("bad_json", status=400, hint="not well-formed JSON in UTF-8") from None
    if not isinstance(value, dict) or _too_much(value):
        raise CallbackRejected("bad_json", status=400, hint="not a JSON object, too deep or too many parts")
    if _ESCAPED_UNSTORABLE.search(data):
        value = _mapped(value, lambda item: _UNSTORABLE.sub("\ufffd", item) if isinstance(item, str) else item)
    fields: dict[str, Any] = value
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number beyond every float")
    return value


def _too_much(value: Any) -> bool:
    """Whether objects and arrays nest deeper, or are more in one level, than XML may."""
    level: list[Any] = [value]
    for _ in range(xml.MAX_DEPTH):
        items = (item.values() if isinstance(item, dict) else item for item in level)
        level = [child for children in items for child in children if isinstance(child, dict | list)]
        if not level:
            return False
        if len(level) > xml.MAX_NODES:
            return True
    return True


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {change(key): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return change(value)


def stringified(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields with every scalar as text, as XML would have brought them."""
    result: dict[str, Any] = _mapped(dict(fields), as_text)
    return result


def as_text(value: Any) -> str:
    """A scalar as the platform spells it; the first of repeated elements; an absent or nested value is ''."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return as_text(value[0]) if value else ""
    if value is None or isinstance(value, dict):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def text_of(fields: Mapping[str, Any], *names: str) -> str:
    """The text of the first of these fields that is not empty, never stripped."""
    for name in names:
        text = as_text(fields.get(name))
        if text:
            return text
    return ""


def id_of(fields: Mapping[str, Any], *names: str) -> str:
    """An identifier exactly as spelled, without the layout around it."""
    return text_of(fields, *names).strip()


def as_list(value: Any) -> list[Any]:
    """One element or repeated ones, always as a list; nothing or an empty element is an empty list."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def child(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A nested element's fields; empty when absent or of another form."""
    value = fields.get(name)
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, dict) else {}


def sent_at_ms(create_time: str, received_at_ms: int) -> int:
    """CreateTime (epoch seconds) in milliseconds; the time of arrival when it is missing or impossible."""
    if create_time.isascii() and create_time.isdigit() and len(create_time) <= 12:
        create_time_s = int(create_time)
        if 0 < create_time_s < _LATEST_S:
            return create_time_s * 1000
    return received_at_ms


def message_key(account_id: str, sender: str, message_id: str, create_time: str, payload: bytes) -> str:
    """A message's idempotency key: account, sender, MsgId, CreateTime; without a MsgId the decrypted body stands for it."""
    if message_id:
        return _key(account_id, "m", sender, message_id, create_time)
    return _key(account_id, "b", sender, create_time, hashlib.sha256(payload).hexdigest())


def event_key(account_id: str, sender: str, create_time: str, event: str, key: str, payload: bytes) -> str:
    """An event's idempotency key: account, sender, CreateTime, event, its key or task id, and the decrypted body."""
    return _key(account_id, "e", sender, create_time, event, key, hashlib.sha256(payload).hexdigest())


def _key(account_id: str, *parts: str) -> str:
    spelled = "\0".join(f"{len(part)}:{part}" for part in (account_id, *parts))
    return f"{account_id}:{parts[0]}:{hashlib.sha256(spelled.encode()).hexdigest()[:40]}"
