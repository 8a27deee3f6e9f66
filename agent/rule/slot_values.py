"""Reads typed values out of a sentence: choices, moments, numbers, identifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agent.rule.slot_schema import enum_words, is_time
from memory.dates import find_stretches
from memory.moments import Moment, find_moment, find_repeat
from memory.numbers import NUMBER, parse_number

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)+|[A-Za-z]+\d+|\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][A-Za-z0-9]+")
_UNIT = re.compile(r"\s*个?(台|份|次|天|分钟|小时|人|条|项|张|间|位|元|行|页|个)")
_NO_COUNT = re.compile(r"\s*[号楼层栋点月年日:/]|[\u4e00-\u9fff]?[厅室]")
"""What makes a number a name or a time: 三号厅, 5楼, 3点."""
_ORDINAL = re.compile(rf"(?:第|选|就)?\s*({NUMBER})\s*(?:个|项|条|号|位)?(?:吧)?")
_DUE_HOUR = 18
"""A day named as the last one ends with the working day."""
_SAID_MEANT = (
    ("提醒|叫我", "提醒|remind"),
    ("截止|之前|前完成|前交|到期|前做|前搞定|前给", "截止|到期|due|deadline"),
    ("开始", "开始|start"),
)


@dataclass(slots=True)
class Filled:
    """What a sentence gave: values by parameter, and the parts of the text they were read from."""

    values: dict[str, Any] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)


def take(filled: Filled, name: str, found: tuple[Any, tuple[int, int] | None] | None) -> None:
    """Keep a value that was found, and where."""
    if found is not None:
        filled.values[name] = found[0]
        if found[1] is not None:
            filled.spans.append(found[1])


def read_enum(plain: str, name: str, schema: Mapping[str, Any]) -> tuple[Any, tuple[int, int] | None] | None:
    """The choice a sentence names, and where: its value, or the word its description gives it."""
    values = list(schema.get("enum", ()))
    repeat, span = find_repeat(plain)
    if repeat in values and span is not None:
        return repeat, span
    lower = plain.lower()
    candidates = [(str(value), value) for value in values] + list(enum_words(schema).items())
    for word, value in sorted(candidates, key=lambda pair: -len(pair[0])):
        pattern = re.escape(word.lower())
        if re.fullmatch(r"[\x00-\x7f]+", word):
            pattern = rf"(?<![a-z0-9_-]){pattern}(?![a-z0-9_-])"
        match = re.search(pattern, lower)
        if match and value is not None:
            return value, match.span()
    return None


def read_time(plain: str, properties: Mapping[str, Mapping[str, Any]], now: datetime, filled: Filled) -> None:
    """The moment a sentence names, for the parameter it is meant for; each clause's own where several may be told."""
    names = [name for name, schema in properties.items() if is_time(name, schema) and name not in filled.values]
    repeating = filled.values.get("repeat", "none") != "none"
    timed = _timed_clauses(plain, now) if len(names) > 1 else []
    if len(timed) < 2:
        moment = find_moment(plain, now, repeating=repeating) if names else None
        timed = [(plain, moment)] if moment is not None else []
    for clause, moment in timed:
        left = [name for name in names if name not in filled.values]
        if not left:
            return
        name = _time_for(clause, left, properties, moment)
        filled.values[name] = stamp(meant_for(moment, name, properties[name]), properties[name])
        filled.spans.extend(moment.spans)


def meant_for(moment: Moment, name: str, schema: Mapping[str, Any]) -> datetime:
    """The moment as this parameter means it: a day alone is due at the end of work."""
    due = not moment.exact and re.search("截止|到期|due|deadline", f"{name} {schema.get('title', '')}")
    return moment.at.replace(hour=_DUE_HOUR) if due else moment.at


def _timed_clauses(plain: str, now: datetime) -> list[tuple[str, Moment]]:
    """The clauses that name a moment; an hour without a day is of the day named before (周五交，上午提醒我)."""
    found: list[tuple[str, Moment]] = []
    for match in re.finditer(r"[^,，。;；!！\n]+", plain):
        moment = find_moment(match.group(), now)
        if moment is None:
            continue
        at = moment.at
        if found and not find_stretches(match.group(), now, "future") and not re.search("后|过", match.group()):
            at = datetime.combine(found[-1][1].at.date(), at.timetz())
        spans = tuple((start + match.start(), end + match.start()) for start, end in moment.spans)
        found.append((match.group(), Moment(at, moment.exact, spans)))
    return found


def several_times(plain: str, now: datetime) -> bool:
    """Whether a sentence lists moments: 明天九点和后天十点."""
    first = find_moment(plain, now)
    if first is None:
        return False
    end = max(end for _, end in first.spans)
    joined = re.match(r"\s*(?:和|、|以及|还有|跟|及)\s*", plain[end:])
    rest = plain[end + joined.end() :] if joined else ""
    second = find_moment(rest, now) if rest else None
    return second is not None and min(start for start, _ in second.spans) == 0


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


def read_choice(plain: str, values: Sequence[Any], words: Sequence[str]) -> Any:
    """The one of several choices a short answer means, besides naming it: 第二个, 最后一个, 运维 for 运维群; or None."""
    bare = plain.strip(" \t\r\n。.,!~吧的")
    match = _ORDINAL.fullmatch(bare)
    number = parse_number(match[1]) if match is not None else -1 if bare.startswith("最后") else None
    if isinstance(number, int) and (number == -1 or 1 <= number <= len(values)):
        return values[number - 1 if number > 0 else -1]
    alike = [value for value, word in zip(values, words, strict=True) if len(bare) > 1 and (bare in word or word in bare)]
    return alike[0] if len(alike) == 1 else None


def stamp(moment: datetime, schema: Mapping[str, Any]) -> str:
    """A moment as the parameter wants it: ISO 8601 with offset, or a day."""
    return moment.date().isoformat() if schema.get("format") == "date" else moment.isoformat(timespec="seconds")


def read_typed(
    plain: str, name: str, schema: Mapping[str, Any], taken: Sequence[tuple[int, int]]
) -> tuple[Any, tuple[int, int] | None] | None:
    """A number, a token of a pattern, or a machine's name, and where."""
    kind = schema.get("type", "string")
    if kind in ("integer", "number"):
        return _number(plain, name, schema, taken)
    if kind == "string" and schema.get("pattern"):
        return _patterned(plain, str(schema["pattern"]), taken)
    if kind == "string" and is_machine(name):
        found = machine_in(plain, taken)
        if found is not None:
            return found
        if re.search("本机|这台机器|local", plain):
            return "local", None
    return None


def is_machine(name: str) -> bool:
    """Whether a parameter of this name is a machine."""
    return re.search(r"host|server|machine|device", name) is not None


def machine_in(plain: str, taken: Sequence[tuple[int, int]]) -> tuple[str, tuple[int, int]] | None:
    """The first machine's name (web-01, 192.0.2.1) in a sentence, and where."""
    for match in _IDENTIFIER.finditer(plain):
        if not overlaps(match.span(), taken) and re.search(r"\d|-", match.group()):
            return match.group(), match.span()
    return None


def _number(
    plain: str, name: str, schema: Mapping[str, Any], taken: Sequence[tuple[int, int]]
) -> tuple[Any, tuple[int, int]] | None:
    known_by, called = _by_number(name, schema), _called(schema)
    identifiers = [match.span() for match in _IDENTIFIER.finditer(plain)]
    matches = list(re.finditer(rf"(?<![A-Za-z0-9-])[#第]?({NUMBER})", plain))
    if names_unit(schema) and not known_by:  # 301，2小时: what is counted as the parameter says comes first
        matches.sort(key=lambda match: _UNIT.match(plain, match.end()) is None)
    for match in matches:
        value = parse_number(match[1])
        if value is None or overlaps(match.span(1), taken) or overlaps(match.span(1), identifiers):
            continue
        if match[1] in ("一", "两") and plain[match.start()] != "第" and re.match("[个条项份下些]", plain[match.end() :]):
            continue
        if schema.get("type") == "integer" and not isinstance(value, int):
            continue
        unit = _UNIT.match(plain, match.end())
        if not known_by and (_NO_COUNT.match(plain, match.end()) or _other_unit(unit, called)):
            continue
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            continue
        return value, (match.start(), unit.end() if unit else match.end())
    return None


def is_mere_number(plain: str, name: str, schema: Mapping[str, Any], span: tuple[int, int] | None) -> bool:
    """Whether what was read at ``span`` is a number without anything that says what it counts, for a parameter that counts."""
    if schema.get("type") not in ("integer", "number") or span is None or _by_number(name, schema):
        return False
    return re.fullmatch(NUMBER, plain[slice(*span)]) is not None


def names_unit(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter says what it counts: 小时数."""
    return _UNIT.search(_called(schema)) is not None


def _by_number(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a parameter is a thing's own number: 编号."""
    return name in ("number", "no", "id") or "编号" in _called(schema)


def _called(schema: Mapping[str, Any]) -> str:
    return f"{schema.get('title', '')} {schema.get('description', '')}"


def _other_unit(unit: re.Match[str] | None, called: str) -> bool:
    """Whether a number counts something else than the parameter says it counts: 三天 where hours are wanted."""
    counted = _UNIT.search(called)
    return unit is not None and counted is not None and unit[1] != counted[1] and "个" not in (unit[1], counted[1])


def _patterned(plain: str, pattern: str, taken: Sequence[tuple[int, int]]) -> tuple[str, tuple[int, int]] | None:
    if len(pattern) > 200:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error:
        return None
    for match in re.finditer(r"[A-Za-z0-9_.:/@+*-]+", plain):
        if len(match.group()) <= 200 and not overlaps(match.span(), taken) and compiled.fullmatch(match.group()):
            return match.group(), match.span()
    return None


def overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Whether a span touches one of the others."""
    return any(span[0] < end and start < span[1] for start, end in others)
