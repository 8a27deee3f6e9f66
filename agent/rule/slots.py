"""Fills a tool's parameters from a sentence, by the types of its JSON Schema; reads the answer to one question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from agent.llm.base import ToolOffer
from agent.rule.slot_schema import choices, flat, is_time, properties_of, property_of
from agent.rule.slot_text import CONTENT_NAMES, Sentence, called, free_names, read_texts, unquote, without_times
from agent.rule.slot_values import (
    Filled,
    is_machine,
    is_mere_number,
    machine_in,
    meant_for,
    names_unit,
    read_choice,
    read_enum,
    read_time,
    read_typed,
    stamp,
    take,
)
from memory.dates import find_stretches
from memory.moments import find_moment, impossible_time, vague_time

_MOST_BESIDE = 10
"""More words beside a time, and the sentence speaks of something else than when: 给李四说一下明天的会取消."""
_YES = re.compile(r"^(?:是|要|需要|开|打开|对|true|yes)")
_NO = re.compile(r"^(?:不|否|别|无需|关|false|no)")


def fill(text: str, offer: ToolOffer, now: datetime, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every parameter the sentence tells, on top of what is ``known``. Nothing is guessed: what is not there stays out. A mere
    number is a word that is needed (会议室 301) before it is a count."""
    values, counts = _fill(text, offer, now, known, frozenset())
    if not counts or not _words_wanting(offer, values):
        return values
    named, _ = _fill(text, offer, now, known, counts)
    if not _words_wanting(offer, named):
        return named
    doubtful = [name for name in counts if names_unit(property_of(offer, name))]  # 会议室 8: eight hours, or the room
    return {name: value for name, value in values.items() if name not in doubtful}


def _words_wanting(offer: ToolOffer, values: Mapping[str, Any]) -> list[str]:
    required = offer.parameters.get("required", ())
    return [name for name in free_names(properties_of(offer)) if name in required and name not in values]


def _fill(
    text: str, offer: ToolOffer, now: datetime, known: Mapping[str, Any] | None, left_out: frozenset[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """What the sentence tells but for the parameters ``left_out``, and which of them came from a mere number."""
    plain = _folded(text)
    properties = {name: schema for name, schema in properties_of(offer).items() if name not in left_out}
    filled, counts = Filled(dict(known or {})), set()
    for name, schema in properties.items():
        if name not in filled.values and "enum" in schema:
            take(filled, name, read_enum(plain, name, schema))
    _read_times(plain, properties, offer.parameters.get("required", ()), now, filled)
    for name, schema in properties.items():
        if name not in filled.values and "enum" not in schema and not is_time(name, schema):
            found = read_typed(plain, name, schema, filled.spans)
            take(filled, name, found)
            if found is not None and is_mere_number(plain, name, schema, found[1]):
                counts.add(name)
    read_texts(Sentence(plain, text), offer, properties, filled)
    return filled.values, frozenset(counts)


def _read_times(
    plain: str, properties: Mapping[str, Mapping[str, Any]], required: Sequence[str], now: datetime, filled: Filled
) -> None:
    """The moments a sentence names; one that does not exist is no moment, nor a part of any words (see impossible_time)."""
    if not any(is_time(name, schema) for name, schema in properties.items()):
        return
    plain = re.sub("(?<=[记查看说叫醒录])一下(?=周|星期|礼拜|个?月)", "\0\0", plain)  # 记一下，周五: not 下周五
    wrong = impossible_time(plain, now)
    if wrong is not None:
        filled.spans += [wrong[1], *((day.start, day.end) for day in find_stretches(plain, now, "future"))]
        return
    before = set(filled.values)
    read_time(plain, properties, now, filled)
    vague = vague_time(plain, now) if set(filled.values) == before else None
    if vague is not None and any(is_time(name, properties[name]) for name in required if name in properties):
        filled.spans.append(vague[1])
    filled.spans[:] = [span for span in filled.spans if not _belongs_to_words(plain, span, filled.spans)]


def _belongs_to_words(plain: str, span: tuple[int, int], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a time describes what is spoken of, and so stays a part of the words: 9点的会议."""
    after = plain[span[1] :]
    return re.match("的(?!时候|提醒|闹钟|待办)[\u4e00-\u9fff]", after) is not None and not any(
        start == span[1] + 1 for start, _ in spans
    )


def fill_answer(text: str, name: str, offer: ToolOffer, now: datetime, known: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the answer to one question gives on top of what is ``known``, or None when it is no answer to it.

    Words that answer the question for words are these words: of other parameters only times are read from them, and only
    where the tool has such (「三号厅」 is no number of hours). A typed answer may bring other typed values along.
    """
    properties = properties_of(offer)
    schema = properties[name]
    if name not in free_names(properties):
        value = read_answer(text, name, schema, now)
        if value is None:
            return None
        told = fill(text, offer, now, {**known, name: value})
        free = set(free_names(properties)) & set(offer.parameters.get("required", ())) - set(known)
        return {key: one for key, one in told.items() if key not in free or re.search("[,，:：]", text)}
    plain = re.sub(rf"^(?:{called(name, schema)})(?:[是为叫]|[:：])+\s*", "", text.strip())
    values = {**known}
    filled = Filled(values)
    if name not in CONTENT_NAMES or any(one in offer.parameters.get("required", ()) for one in _times(properties)):
        timed = {one: properties[one] for one in _times(properties)}
        _read_times(_folded(plain), timed, offer.parameters.get("required", ()), now, filled)
    kept = list(plain)
    for start, end in filled.spans:
        kept[start:end] = ["\0"] * (end - start)
    words = unquote(without_times("".join(kept))) if filled.spans else unquote(plain)
    return {**filled.values, name: words} if words else None


def _times(properties: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [name for name, schema in properties.items() if is_time(name, schema)]


def nearer(vague: str, answer: str, now: datetime) -> str:
    """An answer as one of the days named before: 下周, then 周三: 下周三; 下个月, then 15号: 下个月15号. Else as it is."""
    plain = unicodedata.normalize("NFKC", answer).strip()
    week = re.match("(?:周|星期|礼拜)(?=[一二三四五六日天末1-7])", plain)
    joined = vague + (plain[week.end() :] if week is not None and re.search("(?:周|星期|礼拜)$", vague) else plain)
    alone, both = find_moment(plain, now), find_moment(joined, now)
    open_day = re.match(r"(?:周|星期|礼拜)[一二三四五六日天末1-7]|\d{1,2}[号日]|[一二三四五六七八九十]{1,3}[号日]", plain)
    return joined if open_day is not None and alone is not None and both is not None else answer


def options_of(offer: ToolOffer, name: str) -> list[Any]:
    """The values a parameter may have, where they are few and known."""
    return list(flat(property_of(offer, name)).get("enum", ()))


def too_long(offer: ToolOffer, values: Mapping[str, Any]) -> tuple[str, int] | None:
    """The first text that is longer than its parameter takes, and how many characters that is; or None."""
    for name, schema in properties_of(offer).items():
        limit = schema.get("maxLength")
        if isinstance(limit, int) and isinstance(values.get(name), str) and len(values[name]) > limit:
            return name, limit
    return None


def _folded(text: str) -> str:
    """NFKC, character by character: every character stays where it was, so that what is read can be given back as typed."""
    return "".join(one if len(folded := unicodedata.normalize("NFKC", one)) != 1 else folded for one in text)


def unknown_machine(text: str, offer: ToolOffer, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """A machine the sentence names that is none of the tool's choices, and its parameter: never another one instead."""
    for name, schema in properties_of(offer).items():
        if name not in values and "enum" in schema and is_machine(name):
            plain = unicodedata.normalize("NFKC", text)
            given = [match.span() for value in values.values() for match in re.finditer(re.escape(str(value)), plain)]
            found = machine_in(plain, given)
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
        return read_choice(plain, list(schema["enum"]), choices(schema)) if found is None else found[0]
    if is_time(name, schema):
        moment = find_moment(plain, now)
        beside = len(plain) - sum(end - start for start, end in moment.spans) if moment is not None else 0
        return None if moment is None or beside > _MOST_BESIDE else stamp(meant_for(moment, name, schema), schema)
    if schema.get("type") == "boolean":
        return True if _YES.match(plain) else False if _NO.match(plain) else None
    if schema.get("type") in ("integer", "number") or schema.get("pattern"):
        typed = read_typed(plain, name, schema, [])
        return None if typed is None else typed[0]
    if schema.get("type") == "array":
        return [part for part in re.split(r"[、,，和\s]+", plain) if part] or None
    return unquote(text.strip()) or None
