"""Fills a tool's parameters from a sentence, by the types of its JSON Schema; knows what is missing and how to ask."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agent.llm.base import ToolOffer
from memory.moments import Moment, find_moment, find_repeat
from memory.numbers import NUMBER, parse_number

_TIME_NAME = re.compile(r"(?:^|_)(?:at|time|date|datetime|due|when|deadline|remind|start|end|from|to|until|since)$|_(?:at|on)$")
_FILLER = re.compile(
    r"^(?:请|麻烦|劳驾|能不能|可以|可不可以|帮我|帮忙|给我|替我|我想|我要|你|再|先|把|将|来|记得|记一下|，|,|。|、|:|：|\s)+"
    r"|(?:，|,|。|、|;|；|！|!|？|\?|\s|吧|呢|啊|一下)+$"
)
_MAKE = re.compile(
    r"(?:新?建立?|创建|添加|新增|增加|加|设|设置|定|记|发|写|开|提交?|做成?|弄)(?:成|为|上)?(?:一?[个条项份张则]|个|一下)?(?:的)?"
)
_QUOTED = re.compile(r"[「『“\"《]([^」』”\"》]{1,500})[」』”\"》]")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)+|[A-Za-z]+\d+|\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][A-Za-z0-9]+")
_YES = re.compile(r"^(?:是|要|需要|开|打开|对|true|yes)")
_NO = re.compile(r"^(?:不|否|别|无需|关|false|no)")


@dataclass(slots=True)
class Filled:
    """What a sentence gave: values by parameter, and the parts of the text they were read from."""

    values: dict[str, Any] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)


def fill(text: str, offer: ToolOffer, now: datetime, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every parameter the sentence tells, on top of what is ``known``. Nothing is guessed: what is not there stays out."""
    plain = unicodedata.normalize("NFKC", text)
    properties = _properties(offer)
    filled = Filled(dict(known or {}))
    for name, schema in properties.items():
        if name not in filled.values and "enum" in schema:
            _take(filled, name, _enum(plain, name, schema))
    _times(plain, properties, now, filled)
    for name, schema in properties.items():
        if name not in filled.values and "enum" not in schema and not is_time(name, schema):
            _take(filled, name, _typed(plain, name, schema, filled.spans))
    _main(plain, offer, properties, filled)
    return filled.values


def read_answer(text: str, name: str, schema: Mapping[str, Any], now: datetime) -> Any:
    """The value a person's answer to one question gives, or None when it is no such value."""
    plain = unicodedata.normalize("NFKC", text).strip()
    schema = _flat(schema)
    if "enum" in schema:
        found = _enum(plain, name, schema)
        return None if found is None else found[0]
    if is_time(name, schema):
        moment = find_moment(plain, now)
        return None if moment is None else _stamp(moment.at, schema)
    if schema.get("type") == "boolean":
        return True if _YES.match(plain) else False if _NO.match(plain) else None
    if schema.get("type") in ("integer", "number") or schema.get("pattern"):
        typed = _typed(plain, name, schema, [])
        return None if typed is None else typed[0]
    if schema.get("type") == "array":
        return [part for part in re.split(r"[、,，和\s]+", plain) if part] or None
    return _unquote(plain)[: int(schema.get("maxLength", 500))] or None


def missing(offer: ToolOffer, values: Mapping[str, Any]) -> list[str]:
    """Required parameters without a value, in the schema's order."""
    required = offer.parameters.get("required", [])
    return [name for name in _properties(offer) if name in required and name not in values]


def label(name: str, schema: Mapping[str, Any]) -> str:
    """What a parameter is called to a person: its title, else its description's first clause, else its name."""
    schema = _flat(schema)
    title = str(schema.get("title") or "")
    if re.search("[\u4e00-\u9fff]", title):
        return title
    described = re.split(r"[，,。；;（(：:\s]", str(schema.get("description") or ""), maxsplit=1)[0].strip()
    return described or title or name


def choices(schema: Mapping[str, Any]) -> list[str]:
    """The values of an enum as a person may say them."""
    schema = _flat(schema)
    words = _words(schema)
    return [next((word for word, value in words.items() if value == item), str(item)) for item in schema.get("enum", [])]


def property_of(offer: ToolOffer, name: str) -> Mapping[str, Any]:
    """The schema of one parameter, its title the Chinese name the tool gives it."""
    return _properties(offer).get(name, {})


def is_time(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a parameter holds a moment or a day."""
    schema = _flat(schema)
    if schema.get("type", "string") != "string":
        return False
    if schema.get("format") in ("date-time", "date"):
        return True
    text = f"{schema.get('title', '')} {schema.get('description', '')}"
    return bool(_TIME_NAME.search(name)) and bool(re.search(r"时间|日期|ISO|时刻|截止|YYYY", text))


def _properties(offer: ToolOffer) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name, schema in offer.parameters.get("properties", {}).items():
        if isinstance(schema, Mapping):
            flat = _flat(schema)
            found[name] = {**flat, "title": offer.labels[name]} if offer.labels.get(name) else flat
    return found


def _flat(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """``anyOf`` with null (an optional field of pydantic) as its other half."""
    options = [one for one in schema.get("anyOf", ()) if isinstance(one, Mapping) and one.get("type") != "null"]
    return {**options[0], **{key: value for key, value in schema.items() if key != "anyOf"}} if options else schema


def _take(filled: Filled, name: str, found: tuple[Any, tuple[int, int] | None] | None) -> None:
    if found is not None:
        filled.values[name] = found[0]
        if found[1] is not None:
            filled.spans.append(found[1])


def _words(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Words for enum values told in the description as ``high=高`` or ``高(high)``."""
    words: dict[str, Any] = {}
    text = unicodedata.normalize("NFKC", str(schema.get("description", "")))
    for item in schema.get("enum", ()):
        for pattern in (
            rf"\b{re.escape(str(item))}\s*[=:是]\s*([\u4e00-\u9fff]+)",
            rf"([\u4e00-\u9fff]+)\(\s*{re.escape(str(item))}\s*\)",
        ):
            match = re.search(pattern, text)
            if match:
                words[match[1]] = item
    return words


def _enum(plain: str, name: str, schema: Mapping[str, Any]) -> tuple[Any, tuple[int, int] | None] | None:
    values = list(schema.get("enum", ()))
    repeat, span = find_repeat(plain)
    if repeat in values and span is not None:
        return repeat, span
    lower = plain.lower()
    candidates = [(str(value), value) for value in values] + list(_words(schema).items())
    for word, value in sorted(candidates, key=lambda pair: -len(pair[0])):
        pattern = re.escape(word.lower())
        if re.fullmatch(r"[\x00-\x7f]+", word):
            pattern = rf"(?<![a-z0-9_-]){pattern}(?![a-z0-9_-])"
        match = re.search(pattern, lower)
        if match and value is not None:
            return value, match.span()
    return None


def _times(plain: str, properties: Mapping[str, Mapping[str, Any]], now: datetime, filled: Filled) -> None:
    names = [name for name, schema in properties.items() if is_time(name, schema) and name not in filled.values]
    repeating = filled.values.get("repeat", "none") != "none"
    moment = find_moment(plain, now, repeating=repeating) if names else None
    if moment is None:
        return
    name = _time_for(plain, names, properties, moment)
    due = not moment.exact and re.search("截止|到期|due|deadline", f"{name} {properties[name].get('title', '')}")
    at = moment.at.replace(hour=_DUE_HOUR) if due else moment.at
    filled.values[name] = _stamp(at, properties[name])
    filled.spans.extend(moment.spans)


_DUE_HOUR = 18
"""A day named as the last one ends with the working day."""
_SAID_MEANT = (
    ("提醒|叫我", "提醒|remind"),
    ("截止|之前|前完成|前交|到期|前做|前搞定|前给", "截止|到期|due|deadline"),
    ("开始", "开始|start"),
)


def _time_for(plain: str, names: list[str], properties: Mapping[str, Mapping[str, Any]], moment: Moment) -> str:
    """Which of several moments was meant, by the words around it."""
    if len(names) == 1:
        return names[0]
    speaks = {name: f"{name} {properties[name].get('title', '')} {properties[name].get('description', '')}" for name in names}
    for said, meant in _SAID_MEANT:
        if re.search(said, plain):
            fit = [name for name in names if re.search(meant, speaks[name])]
            if fit:
                return fit[0]
    return names[0]


def _stamp(moment: datetime, schema: Mapping[str, Any]) -> str:
    return moment.date().isoformat() if schema.get("format") == "date" else moment.isoformat(timespec="seconds")


def _typed(
    plain: str, name: str, schema: Mapping[str, Any], taken: Sequence[tuple[int, int]]
) -> tuple[Any, tuple[int, int] | None] | None:
    kind = schema.get("type", "string")
    if kind in ("integer", "number"):
        return _number(plain, schema, taken)
    if kind == "string" and schema.get("pattern"):
        return _patterned(plain, str(schema["pattern"]), taken)
    if kind == "string" and re.search(r"host|server|machine|device", name):
        for match in _IDENTIFIER.finditer(plain):
            if not _overlaps(match.span(), taken) and re.search(r"\d|-", match.group()):
                return match.group(), match.span()
        if re.search("本机|这台机器|local", plain):
            return "local", None
    return None


def _number(plain: str, schema: Mapping[str, Any], taken: Sequence[tuple[int, int]]) -> tuple[Any, tuple[int, int]] | None:
    identifiers = [match.span() for match in _IDENTIFIER.finditer(plain)]
    for match in re.finditer(rf"(?<![A-Za-z0-9-])[#第]?({NUMBER})", plain):
        value = parse_number(match[1])
        if value is None or _overlaps(match.span(1), taken) or _overlaps(match.span(1), identifiers):
            continue
        if match[1] in ("一", "两") and re.match("[个条项份下些]", plain[match.end() :]):
            continue
        if schema.get("type") == "integer" and not isinstance(value, int):
            continue
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            continue
        return value, match.span()
    return None


def _patterned(plain: str, pattern: str, taken: Sequence[tuple[int, int]]) -> tuple[str, tuple[int, int]] | None:
    if len(pattern) > 200:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error:
        return None
    for match in re.finditer(r"[A-Za-z0-9_.:/@+-]+", plain):
        if len(match.group()) <= 200 and not _overlaps(match.span(), taken) and compiled.fullmatch(match.group()):
            return match.group(), match.span()
    return None


def _main(plain: str, offer: ToolOffer, properties: Mapping[str, Mapping[str, Any]], filled: Filled) -> None:
    """The free texts of a call: who it goes to, what is quoted, what follows a colon, else what is left of the sentence."""
    free = [
        name
        for name, schema in properties.items()
        if schema.get("type", "string") == "string"
        and not {"enum", "pattern", "format", "const"} & set(schema)
        and name not in filled.values
        and not is_time(name, schema)
        and not re.search(r"host|server|machine|device|(?:^|_)id$", name)
    ]
    for name in [one for one in free if one in _PERSON_NAMES]:
        _take(filled, name, _group(_PERSON, plain))
    for name in [one for one in free if one in _SEARCH_NAMES]:
        _take(filled, name, _group(_SEARCHED, plain))
    open_names = [name for name in free if name in offer.parameters.get("required", ()) and name not in filled.values]
    open_names = [name for name in open_names if name not in _PERSON_NAMES]
    content = next((name for name in open_names if name in _CONTENT_NAMES), None)
    title = next((name for name in open_names if name != content), None)
    quoted = _QUOTED.search(plain)
    if quoted and (title or content):
        _put(filled, properties, title or content or "", quoted[1])
    if content is not None and content not in filled.values:
        after = _AFTER_COLON.search(plain)
        text = after[1] if after and (title is None or title in filled.values) else ""
        if title is None or title in filled.values:
            said = [label(name, schema) for name, schema in properties.items() if name in filled.values]
            rest = _rest(plain, filled.spans, offer.triggers, said) if not quoted else ""
            _put(filled, properties, content, text or rest)
    elif title is not None and title not in filled.values:
        said = [label(name, schema) for name, schema in properties.items() if name in filled.values]
        _put(filled, properties, title, _rest(plain, filled.spans, offer.triggers, said))


_PERSON_NAMES = frozenset({"to", "recipient", "receiver", "assignee", "user", "person"})
_CONTENT_NAMES = frozenset({"text", "content", "message", "body"})
_SEARCH_NAMES = frozenset({"keyword", "query", "keywords", "search"})
_PERSON = re.compile(
    r"(?:转告|告诉|通知|发给|给|@)(?P<value>[A-Za-z][A-Za-z0-9_.-]{1,31}|[\u4e00-\u9fff]{2,4}?)"
    r"(?:发(?:一?[个条])?(?:消息|信息|微信)?|说(?:一声|一下)?|一下|一声)?(?=[:,，。\s]|$|明|后|今|下|会|我)"
)
_SEARCHED = re.compile(r"(?:包含|含有|关键字是?|搜索?一?下?|里面?的|有没有)\s*(?P<value>[^\s，,。的?？]{1,100})")
_AFTER_COLON = re.compile(r"(?<!\d)[::]\s*(.+)$", re.DOTALL)


def _group(pattern: re.Pattern[str], plain: str) -> tuple[str, tuple[int, int]] | None:
    match = pattern.search(plain)
    return None if match is None else (match["value"], match.span())


def _put(filled: Filled, properties: Mapping[str, Mapping[str, Any]], name: str, text: str) -> None:
    text = text.strip()
    if text:
        filled.values[name] = text[: int(properties[name].get("maxLength", 500))]


def _rest(plain: str, spans: Sequence[tuple[int, int]], triggers: Sequence[str], labels: Sequence[str]) -> str:
    """The sentence without times and what only says what to do: 把web-01的内存告警建一个待办，明天提醒我 → web-01的内存告警."""
    kept = list(plain)
    for start, end in spans:
        kept[start:end] = ["\0"] * (end - start)
    text = "".join(kept)
    named = "|".join(re.escape(one) for one in labels if one)
    if named:
        text = re.sub(rf"\0+(?:{named})?的?|(?:{named})(?:是|为|:)?\0+", "\0", text)
    nouns = "|".join(sorted({re.escape(part) for trigger in triggers for part in trigger.split()}, key=len, reverse=True))
    if nouns:
        text = re.sub(rf"{_MAKE.pattern}\0*(?:{nouns})", "\0", text)
        text = re.sub(nouns, "\0", text)
    text = re.sub(r"(?:到时候?|届时|记得)?(?:提醒|通知|叫)(?:一下)?我?", "\0", text)
    pieces = [_bare(piece) for piece in re.split(r"[\0，,。；;！!\n]+", text)]
    return " ".join(piece for piece in pieces if len(piece) > 1)


_EMPTY_WORDS = re.compile(rf"(?:之?前|以?内)?(?:要|得|必须)?(?:完成|搞定|做完|做好|提交|交|弄完)?|{_MAKE.pattern}|每|的")


def _bare(text: str) -> str:
    before = ""
    while text != before:
        before = text
        text = _FILLER.sub("", text.strip())
    text = re.sub(r"^(?:的|要|去|在|之?前|内)(?=.)|(?:的|要|在)$", "", text)
    return "" if _EMPTY_WORDS.fullmatch(text) else text


def _unquote(text: str) -> str:
    match = _QUOTED.fullmatch(text)
    return match[1] if match else text


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)
