"""Server-sent events as model servers really send them: bytes in, one JSON object out per event."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from agent.llm.base import ModelError

MAX_BYTES = 16 * 1024 * 1024
"""What one answer may weigh on the wire, keep-alives and blanks included."""
_MAX_LINE = 2 * 1024 * 1024
_MAX_LINES = 500_000
"""Far more than any answer has; blank lines without end would cost a minute of processor time before they weigh too much."""
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
_ERROR_EVENTS = ("error", "exception")


@dataclass(frozen=True, slots=True)
class Event:
    """One event: a JSON object, or the end of the stream (``[DONE]``)."""

    data: dict[str, Any]
    done: bool = False
    is_error: bool = False
    """The event's name says it is an error, whatever its data looks like."""


async def events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Event, None]:
    """The events of a stream.

    Comments, keep-alives that are no JSON, ``null`` and events without data are passed over; CR, LF and CRLF, a BOM, ``data:``
    without a space, several ``data`` lines and characters split between chunks are understood. Raises ModelError
    (``bad_body``) for a chunk that begins like JSON and is none, and for a stream without measure.
    """
    reader = _Reader()
    async for chunk in chunks:
        for event in reader.feed(chunk):
            yield event
    for event in reader.finish():
        yield event


def events_of(body: bytes) -> Iterator[Event]:
    """The events of a body that was read whole."""
    reader = _Reader()
    yield from reader.feed(body)
    yield from reader.finish()


class _Reader:
    def __init__(self) -> None:
        self._rest = bytearray()
        self._seen = 0
        self._count = 0
        self._name = ""
        self._lines: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self._seen += len(chunk)
        lines: list[bytes] = []
        if self._rest.endswith(b"\r") or b"\n" in chunk or b"\r" in chunk:  # else a line goes on, and is not read again
            *lines, rest = _LINE_END.split(bytes(self._rest) + chunk)
            self._rest = bytearray(rest)
        else:
            self._rest += chunk
        self._count += len(lines)
        if self._seen > MAX_BYTES or len(self._rest) > _MAX_LINE or self._count > _MAX_LINES:
            raise ModelError("bad_body", "endless answer")
        for line in lines:
            if line or self._lines or self._name:  # blanks by the million are cheap
                yield from self._line(line)

    def finish(self) -> Iterator[Event]:
        yield from self._line(bytes(self._rest).rstrip(b"\r"))
        yield from self._line(b"")

    def _line(self, raw: bytes) -> Iterator[Event]:
        line = raw.decode("utf-8", "replace").lstrip("\ufeff")
        if not line:
            yield from self._dispatch()
            return
        if line.startswith("{"):  # a body in an event's place: some proxies send their errors so
            self._lines.append(line)
            return
        field, _, value = line.partition(":")
        if field == "data":
            self._lines.append(value.strip())
        elif field == "event":
            self._name = value.strip().lower()

    def _dispatch(self) -> Iterator[Event]:
        lines, name = [line for line in self._lines if line], self._name
        self._lines, self._name = [], ""
        whole = _parsed("\n".join(lines))
        for value in [whole] if whole is not None else map(_parsed_line, lines):
            if value == "[DONE]":
                yield Event({}, done=True)
            elif isinstance(value, dict):
                yield Event(value, is_error=name in _ERROR_EVENTS)


def _parsed(text: str) -> Any:
    """The JSON value; None when it is none (and for ``null``, which says nothing either)."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _parsed_line(line: str) -> Any:
    if line.startswith("[DONE]"):
        return "[DONE]"
    value = _parsed(line)
    if value is None and line.startswith("{"):
        raise ModelError("bad_body", "a chunk that is no JSON")
    return value
