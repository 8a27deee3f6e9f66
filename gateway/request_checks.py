"""What is checked on a callback request before any cryptography: query fields, content type, the Encrypt element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.channel import CallbackRejected


def required(query: Mapping[str, tuple[str, ...]], *names: str) -> tuple[str, ...]:
    """The one value of each query field. Raises CallbackRejected: missing_parameter, repeated_parameter."""
    values = []
    for name in names:
        given = query.get(name, ())
        if len(given) > 1:
            raise CallbackRejected("repeated_parameter", status=400, hint=f"{name} is given {len(given)} times")
        if not given or not given[0]:
            raise CallbackRejected("missing_parameter", status=400, hint=f"{name} is missing")
        values.append(given[0])
    return tuple(values)


def seconds(timestamp: str) -> int:
    """The query's timestamp as a number. Raises CallbackRejected(missing_parameter) for anything but 1 to 15 digits."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        raise CallbackRejected("missing_parameter", status=400, hint="timestamp is not a number")
    return int(timestamp)


_BODY_TYPES = frozenset(
    {"", "text/xml", "application/xml", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded"}
)
"""What platforms and the proxies before us call a callback's body; "" and the last three say nothing about it."""


def check_content_type(content_type: str, *, json_hint: str | None = None) -> None:
    """Refuse a body nobody sends to a callback, before it is read. ``json_hint`` is set where JSON is refused too.

    Raises CallbackRejected(bad_content_type).
    """
    media_type = content_type.split(";", 1)[0].strip().lower()
    if media_type in _BODY_TYPES:
        return
    if media_type in ("application/json", "text/json"):
        if json_hint is None:
            return
        raise CallbackRejected("bad_content_type", status=415, hint=json_hint)
    raise CallbackRejected("bad_content_type", status=415, hint="a callback's body is XML or JSON")


def encrypted_part(fields: Mapping[str, Any]) -> str:
    """The Encrypt element of an envelope without the layout around it. Raises CallbackRejected(not_encrypted)."""
    encrypt = fields.get("Encrypt")
    if not isinstance(encrypt, str):
        raise CallbackRejected("not_encrypted", hint="the body has no Encrypt element: set the console to safe mode")
    return encrypt.strip()
