"""Fills a tool's parameters from a sentence, by the types of its JSON Schema; reads the answer to one question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agent.llm.base import ToolOffer
from agent.llm.slot_schema import choices, flat, is_time, label, missing, properties_of, property_of
from agent.llm.slot_text import read_texts, unquote
from agent.llm.slot_values import Filled, is_machine, machine_in, read_enum, read_time, read_typed, several_times, stamp, take
from memory.moments import find_moment

__all__ = [
    "choices",
    "fill",
    "is_only_time",
    "is_time",
    "label",
    "missing",
    "properties_of",
    "property_of",
    "read_answer",
    "several_times",
    "unknown_machine",
]


_YES = re.compile(r"^(?:是|要|需要|开|打开|对|true|yes)")
_NO = re.compile(r"^(?:不|否|别|无需|关|false|no)")


def fill(text: str, offer: ToolOffer, now: datetime, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every parameter the sentence tells, on top of what is ``known``. Nothing is guessed: what is not there stays out."""
    plain = _folded(text)
    properties = properties_of(offer)
    filled = Filled(dict(known or {}))
    for name, schema in properties.items():
        if name not in filled.values and "enum" in schema:
            take(filled, name, read_enum(plain, name, schema))
    read_time(plain, properties, now, filled)
    for name, schema in properties.items():
        if name not in filled.values and "enum" not in schema and not is_time(name, schema):
            take(filled, name, read_typed(plain, name, schema, filled.spans))
    before = set(filled.values)
    read_texts(plain, offer, properties, filled)
    for name in set(filled.values) - before:
        filled.values[name] = _as_typed(filled.values[name], plain, text)
    return filled.values


def _folded(text: str) -> str:
    """NFKC, character by character: every character stays where it was, so that what is read can be given back as typed."""
    return "".join(one if len(folded := unicodedata.normalize("NFKC", one)) != 1 else folded for one in text)


def _as_typed(value: Any, plain: str, text: str) -> Any:
    """Words that were read from the folded text, with the person's own punctuation."""
    at = plain.find(value) if isinstance(value, str) else -1
    return value if at < 0 else text[at : at + len(value)]


def unknown_machine(text: str, offer: ToolOffer, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """A machine the sentence names that is none of the tool's choices, and its parameter: never another one instead."""
    for name, schema in properties_of(offer).items():
        if name not in values and "enum" in schema and is_machine(name):
            found = machine_in(unicodedata.normalize("NFKC", text), [])
            return None if found is None else (name, found[0])
    return None


def is_only_time(text: str, now: datetime) -> bool:
    """Whether a sentence names a moment and nothing else: 10分钟后."""
    plain = unicodedata.normalize("NFKC", text).strip(" \t\r\n。.,!?~、")
    moment = find_moment(plain, now)
    return moment is not None and sum(end - start for start, end in moment.spans) >= len(plain)


def read_answer(text: str, name: str, schema: Mapping[str, Any], now: datetime) -> Any:
    """The value a person's answer to one question gives, or None when it is no such value."""
    plain = unicodedata.normalize("NFKC", text).strip()
    schema = flat(schema)
    if "enum" in schema:
        found = read_enum(plain, name, schema)
        return None if found is None else found[0]
    if is_time(name, schema):
        moment = find_moment(plain, now)
        return None if moment is None else stamp(moment.at, schema)
    if schema.get("type") == "boolean":
        return True if _YES.match(plain) else False if _NO.match(plain) else None
    if schema.get("type") in ("integer", "number") or schema.get("pattern"):
        typed = read_typed(plain, name, schema, [])
        return None if typed is None else typed[0]
    if schema.get("type") == "array":
        return [part for part in re.split(r"[、,，和\s]+", plain) if part] or None
    return unquote(text.strip())[: int(schema.get("maxLength", 500))] or None
