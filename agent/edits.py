"""Applies a short change (改成后天, 改为3台) to a proposed call where no doubt is left; the rest is for the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.changes import read_change
from agent.folding import OUTER, as_typed, fold, simplified
from agent.rule.slot_schema import flat, is_time
from agent.rule.slot_values import meant_for
from memory.dates import find_stretches
from memory.moments import Moment, find_moment
from memory.numbers import parse_number

_COUNT = re.compile(
    r"(?P<number>[0-9零一二两三四五六七八九十百千万.]+)\s*(?:台|个人|个|份|次|天|分钟|小时|人|条|项|%|元|gb|mb|行)?",
    re.IGNORECASE,
)
_QUOTES = '“”"「」『』'
_TAIL = re.compile(r"(?:吧|呀|啊|哦|哈|啦|呢|就行|就好|谢谢|提醒我?)+$")
_BESIDE_TIME = re.compile(r"[的在于到\s,]*")
_SEVERAL = re.compile(r"[,，;；。][^“”\"「」]{0,14}[改换]")
_ANY = {"time": re.compile("时间|日期|日子|几点"), "number": re.compile("数量|个数|数目|台数|次数")}


@dataclass(frozen=True, slots=True)
class _Call:
    """What is being changed: the tool's parameters with their names, and the values proposed."""

    properties: Mapping[str, Mapping[str, Any]]
    arguments: Mapping[str, Any]
    labels: Mapping[str, str]
    now: datetime

    def given(self, names: Sequence[str]) -> list[str]:
        """Those that have a value already; all of them when none has."""
        return [name for name in names if name in self.arguments] or list(names)


def edited_arguments(
    parameters: Mapping[str, Any], arguments: Mapping[str, Any], edit_text: str, now: datetime, labels: Mapping[str, str]
) -> dict[str, Any] | None:
    """The arguments after the change, or None when it is not plain which one is meant. Nothing is guessed."""
    text = fold(edit_text).strip(OUTER)
    change = read_change(text)
    what, to = (change.what, change.to) if change is not None else (None, text)
    if _SEVERAL.search(to):
        return None  # 时间改成后天，标题改成周报: half of it would be done
    properties = {name: flat(schema) for name, schema in parameters.get("properties", {}).items()}
    call = _Call(properties, arguments, labels, now)
    names = list(properties)
    named = _named(call, simplified(what.strip(_QUOTES))) if what is not None else []
    if what is not None and not named:
        named = [name for name in names if _is_kind(what, properties[name], name)]
        if not named:
            return None
    brief = _TAIL.sub("", to) or to
    found = _as_time(call, named or names, brief) or _as_number(call, named or names, brief)
    if found is None:
        found = _as_word(call, named or names, as_typed(edit_text, to), brief, only_enum=not named)
    return None if found is None else {**arguments, **found}


def _named(call: _Call, what: str) -> list[str]:
    """The parameters called so; else the only one that has this very value (张三改成李四)."""
    called = [name for name in call.properties if _is_called(what, name, call)]
    if called:
        exact = [name for name in called if what in (call.labels.get(name), name)]
        return exact or called
    holding = [name for name, value in call.arguments.items() if name in call.properties and _holds(value, what, call.now)]
    return holding if len(holding) == 1 else []


def _is_called(what: str, name: str, call: _Call) -> bool:
    called = {call.labels.get(name, ""), str(call.properties[name].get("title", "")), name} - {""}
    return any(what == word or what in word or word in what for word in called)


def _is_kind(what: str, schema: Mapping[str, Any], name: str) -> bool:
    if is_time(name, schema):
        return _ANY["time"].search(what) is not None
    return schema.get("type") in ("integer", "number") and _ANY["number"].search(what) is not None


def _holds(value: Any, what: str, now: datetime) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        count = _COUNT.fullmatch(what)
        return count is not None and parse_number(count["number"]) == value
    if not isinstance(value, str):
        return False
    if simplified(fold(value)) == what:
        return True
    moment, at = _moment(what, now), _instant(value)
    if moment is None or at is None:
        return False
    return (moment.at.hour, moment.at.minute) == (at.hour, at.minute) if moment.exact else moment.at.date() == at.date()


def _moment(text: str, now: datetime) -> Moment | None:
    """The moment a text names and nothing besides it."""
    moment = find_moment(text, now)
    if moment is None:
        return None
    rest = list(text)
    for start, end in moment.spans:
        rest[start:end] = " " * (end - start)
    return moment if _BESIDE_TIME.fullmatch("".join(rest)) else None


def _instant(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _as_time(call: _Call, names: Sequence[str], to: str) -> dict[str, Any] | None:
    times = call.given([name for name in names if is_time(name, call.properties[name])])
    moment = _moment(to, call.now) if len(times) == 1 else None
    if moment is None:
        return None
    name = times[0]
    old = _instant(call.arguments.get(name))
    at = meant_for(moment, name, call.properties[name]) if old is None else _keeping_the_rest(moment, old, to, call.now)
    as_day = call.properties[name].get("format") == "date"
    return {name: at.date().isoformat() if as_day else at.isoformat(timespec="seconds")}


def _keeping_the_rest(moment: Moment, old: datetime, to: str, now: datetime) -> datetime:
    """改成后天 moves the day and leaves the hour; 改到四点 moves the hour and leaves the day."""
    if not moment.exact:
        return moment.at.replace(hour=old.hour, minute=old.minute, second=old.second)
    if find_stretches(to, now, "future") or re.search("后|过|马上|立刻|现在|[0-9]{4}-", to):
        return moment.at
    return moment.at.replace(year=old.year, month=old.month, day=old.day)


def _as_number(call: _Call, names: Sequence[str], to: str) -> dict[str, Any] | None:
    match = _COUNT.fullmatch(to)
    numbers = call.given([name for name in names if call.properties[name].get("type") in ("integer", "number")])
    if match is None or len(numbers) != 1:
        return None
    value = parse_number(match["number"])
    if value is None or (call.properties[numbers[0]]["type"] == "integer" and not isinstance(value, int)):
        return None
    return {numbers[0]: value}


def _as_word(call: _Call, names: Sequence[str], to: str, brief: str, *, only_enum: bool) -> dict[str, Any] | None:
    for said in (to, to.strip(_QUOTES), brief):
        fitting = [name for name in names if said in call.properties[name].get("enum", ())]
        if len(fitting) == 1:
            return {fitting[0]: said}
    free = [name for name in names if call.properties[name].get("type", "string") == "string"]
    if only_enum or len(free) != 1 or "enum" in call.properties[free[0]] or is_time(free[0], call.properties[free[0]]):
        return None
    return {free[0]: to.strip(_QUOTES)}
