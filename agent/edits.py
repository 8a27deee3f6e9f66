"""Applies a short change (改成后天, 改为3台) to a proposed call where no doubt is left; the rest is for the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agent.llm.slots import is_time
from memory.dates import find_stretches
from memory.moments import Moment, find_moment
from memory.numbers import parse_number

_NAMED = re.compile(
    r"^(?:请|麻烦)?(?:把|将)?(?P<what>[^\s,，。]{1,12}?)(?:改成|改为|改到|换成|换到|改在|修改为|调整为|调整到)\s*(?P<to>.+)$",
    re.DOTALL,
)
_COUNT = re.compile(r"^(?P<number>[0-9零一二两三四五六七八九十百千万.]+)\s*(?:台|个|份|次|天|分钟|小时|人|条|项|%|元|GB|MB)?$")
_TRIM = " \t\r\n。.!！~"


def edited_arguments(
    parameters: Mapping[str, Any], arguments: Mapping[str, Any], edit_text: str, now: datetime, labels: Mapping[str, str]
) -> dict[str, Any] | None:
    """The arguments after the change, or None when it is not plain which one is meant. Nothing is guessed."""
    match = _NAMED.match(edit_text.strip(_TRIM))
    what, to = (match["what"], match["to"]) if match else (None, edit_text)
    to = to.strip(_TRIM)
    names = list(parameters.get("properties", {}))
    named = [name for name in names if what is not None and _is_called(what, name, parameters, labels)]
    if what is not None and not named and not re.search("时间|日期|数量|个数|台数", what):
        return None
    found = _as_time(parameters, arguments, named or names, to, now) or _as_number(parameters, arguments, named or names, to)
    if found is None:
        found = _as_word(parameters, named or names, to, only_enum=not named)
    return None if found is None or found == dict(arguments) else {**arguments, **found}


def _is_called(what: str, name: str, parameters: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    called = {labels.get(name, ""), str(_schema(parameters, name).get("title", "")), name} - {""}
    return any(what == word or what in word or word in what for word in called)


def _as_time(
    parameters: Mapping[str, Any], arguments: Mapping[str, Any], names: list[str], to: str, now: datetime
) -> dict[str, Any] | None:
    times = [name for name in names if is_time(name, _schema(parameters, name))]
    given = [name for name in times if name in arguments]
    moment = find_moment(to, now) if times else None
    if moment is None or len(given or times) != 1:
        return None
    name = (given or times)[0]
    at = _keeping_the_rest(moment, arguments.get(name), to, now)
    as_day = _schema(parameters, name).get("format") == "date"
    return {name: at.date().isoformat() if as_day else at.isoformat(timespec="seconds")}


def _keeping_the_rest(moment: Moment, before: Any, to: str, now: datetime) -> datetime:
    """改成后天 moves the day and leaves the hour; 改到四点 moves the hour and leaves the day."""
    try:
        old = datetime.fromisoformat(before) if isinstance(before, str) else None
    except ValueError:
        old = None
    if old is None:
        return moment.at
    if not moment.exact:
        return moment.at.replace(hour=old.hour, minute=old.minute, second=old.second)
    if find_stretches(to, now, "future") or re.search("后|过|马上|立刻|现在|[0-9]{4}-", to):
        return moment.at
    return moment.at.replace(year=old.year, month=old.month, day=old.day)


def _as_number(parameters: Mapping[str, Any], arguments: Mapping[str, Any], names: list[str], to: str) -> dict[str, Any] | None:
    match = _COUNT.match(to)
    kinds = {name: _schema(parameters, name).get("type") for name in names}
    numbers = [name for name in names if kinds[name] in ("integer", "number")]
    given = [name for name in numbers if name in arguments]
    if match is None or len(given or numbers) != 1:
        return None
    value = parse_number(match["number"])
    name = (given or numbers)[0]
    if value is None or (kinds[name] == "integer" and not isinstance(value, int)):
        return None
    return {name: value}


def _as_word(parameters: Mapping[str, Any], names: list[str], to: str, *, only_enum: bool) -> dict[str, Any] | None:
    fitting = [name for name in names if to in _schema(parameters, name).get("enum", ())]
    if len(fitting) == 1:
        return {fitting[0]: to}
    free = [name for name in names if _schema(parameters, name).get("type", "string") == "string"]
    if only_enum or len(free) != 1 or "enum" in _schema(parameters, free[0]) or is_time(free[0], _schema(parameters, free[0])):
        return None
    return {free[0]: to.strip('“”"「」')}


def _schema(parameters: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One parameter's schema; an optional field (anyOf with null) as its other half."""
    schema: Mapping[str, Any] = parameters.get("properties", {}).get(name, {})
    options = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return {**options[0], **{key: value for key, value in schema.items() if key != "anyOf"}} if options else schema
