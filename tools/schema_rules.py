"""Leaf rules of the argument checker: types, enums, numbers, strings; each is compiled once from a schema's keywords."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from config.errors import YizhanError
from tools import texts
from tools.schema_patterns import compile_pattern
from tools.schema_run import Path, Run, listing

Rule = Callable[[Any, Path, Run], None]

_MAX_BITS = 1_000
"""A longer whole number cannot be an argument, nor be shown."""

TYPE_ALIASES = {
    **dict.fromkeys(("string", "str", "text", "char", "character", "varchar"), "string"),
    **dict.fromkeys(("integer", "int", "long", "short", "byte", "bigint", "int32", "int64"), "integer"),
    **dict.fromkeys(("number", "float", "double", "decimal", "numeric"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "set", "arraylist", "sequence", "queue", "stack"), "array"),
    **dict.fromkeys(("object", "dict", "dictionary", "map", "hashmap", "hashtable", "mapping", "record"), "object"),
    **dict.fromkeys(("null", "none", "nonetype"), "null"),
}
"""Names that function lists in the wild use for the seven JSON types; lower-case."""
ANY_TYPES = frozenset({"any", "mixed", "unknown", ""})


class SchemaError(YizhanError):
    """A parameter schema cannot be used: a remote or missing $ref, an unknown type, a keyword of the wrong form."""

    code = "bad_schema"


class BadKeyword(Exception):
    """A keyword of one schema has the wrong form; the compiler adds where."""


# keywords ------------------------------------------------------------------------------------------------------------
def mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object keyword; empty when absent."""
    found = schema.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise BadKeyword(f"{key} must be an object")
    return {} if found is None else {str(name): value for name, value in found.items()}


def listed(schema: Mapping[str, Any], key: str) -> list[Any] | None:
    """A list keyword, or None."""
    found = schema.get(key)
    if found is not None and not isinstance(found, (list, tuple)):
        raise BadKeyword(f"{key} must be a list")
    return None if found is None else list(found)


def number(schema: Mapping[str, Any], key: str) -> float | None:
    """A number keyword, or None."""
    found = schema.get(key)
    if found is None:
        return None
    if not _is_number(found) or (found.bit_length() > _MAX_BITS if isinstance(found, int) else not math.isfinite(found)):
        raise BadKeyword(f"{key} must be a number")
    return found  # type: ignore[no-any-return]


def count(schema: Mapping[str, Any], key: str) -> int | None:
    """A keyword that counts something, or None."""
    found = number(schema, key)
    if found is not None and (found < 0 or found != int(found)):
        raise BadKeyword(f"{key} must be a whole number, not below 0")
    return None if found is None else int(found)


# types ---------------------------------------------------------------------------------------------------------------
def type_name(value: Any) -> str:
    """The JSON type of a parsed value; 3.0 is an integer as in JSON Schema, True is not."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (list, tuple)):
        return "array"
    return "object" if isinstance(value, Mapping) else type(value).__name__


def fits_type(value: Any, types: frozenset[str]) -> bool:
    """Whether the value is of one of these JSON types; an integer is a number."""
    name = type_name(value)
    return name in types or (name == "integer" and "number" in types)


def read_types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The JSON types a schema allows, or None for any. Aliases are understood; a shape without a type implies one."""
    given = schema.get("type")
    if given is None:
        if any(key in schema for key in ("enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "if")):
            return None
        implied = "object" if "properties" in schema else "array" if {"items", "prefixItems"} & schema.keys() else None
        return None if implied is None else frozenset({implied})
    found = set()
    for word in given if isinstance(given, (list, tuple)) else [given]:
        lowered = str(word).strip().lower() if word is not None else "null"
        if lowered in ANY_TYPES:
            return None
        if lowered not in TYPE_ALIASES:
            raise BadKeyword(f"unknown type {str(word)[:80]!r}")
        found.add(TYPE_ALIASES[lowered])
    if not found:
        raise BadKeyword("type must name a type")
    return frozenset(found | ({"null"} if schema.get("nullable") is True else set()))


# values --------------------------------------------------------------------------------------------------------------
def canonical(value: Any) -> str:
    """Equal JSON values give equal text: sorted keys, 1.0 as 1; True and 1 differ."""
    return json.dumps(_plain_numbers(value), sort_keys=True, ensure_ascii=False, default=str)


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and value.bit_length() > 10 * _MAX_BITS:
        return hex(value)  # Python writes no such number in decimal
    if isinstance(value, (list, tuple)):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain_numbers(item) for key, item in value.items()}
    return value


def value_rules(schema: Mapping[str, Any], types: frozenset[str] | None) -> Iterator[Rule]:
    """Rules for enum, const, numbers and strings."""
    values = listed(schema, "enum")
    if values is not None:
        rule = _enum_rule([*values, *([None] if schema.get("nullable") is True else [])], "enum")
        yield _each_item(rule) if _means_items(values, types) else rule
    if "const" in schema:
        yield _enum_rule([schema["const"]], "const")
    yield from _number_rules(schema)
    yield from _string_rules(schema)


def _enum_rule(values: list[Any], code: str) -> Rule:
    allowed = {canonical(value) for value in values}
    words = [value for value in values if isinstance(value, str)]
    shown = listing([value if isinstance(value, str) else canonical(value) for value in values])

    def check(value: Any, path: Path, run: Run) -> None:
        if canonical(value) not in allowed:
            run.add(path, code, expected=shown, wrong=value if isinstance(value, str) else None, right=words)

    return check


def _means_items(values: list[Any], types: frozenset[str] | None) -> bool:
    """Function lists write the enum of a list's items beside the list; read as it stands it would fit no list at all."""
    lists_only = types is not None and "array" in types and types <= {"array", "null"}
    return lists_only and not any(isinstance(value, (list, tuple)) for value in values)


def _each_item(rule: Rule) -> Rule:
    def check(value: Any, path: Path, run: Run) -> None:
        for index, item in enumerate(value or ()):
            rule(item, (*path, index), run)

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _same(value: Any) -> Any:
    return value


def _number_rules(schema: Mapping[str, Any]) -> Iterator[Rule]:
    for name, code, fits in (
        ("minimum", "minimum", lambda value, limit: value >= limit),
        ("maximum", "maximum", lambda value, limit: value <= limit),
        ("exclusiveMinimum", "exclusive_minimum", lambda value, limit: value > limit),
        ("exclusiveMaximum", "exclusive_maximum", lambda value, limit: value < limit),
    ):
        key = name
        if isinstance(schema.get(key), bool) and key.startswith("exclusive"):  # draft 4: a flag on minimum / maximum
            if not schema[key]:
                continue
            key = key.removeprefix("exclusive").lower()
        limit = number(schema, key)
        if limit is not None:
            yield _limit_rule(code, limit, fits, _is_number, _same)
    step = number(schema, "multipleOf")
    if step is not None:
        if step <= 0:
            raise BadKeyword("multipleOf must be above 0")
        yield _limit_rule("multiple_of", step, _is_multiple, _is_number, _same)


def _is_multiple(value: float, step: float) -> bool:
    """In decimal, as written: 0.3 is a multiple of 0.1."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return (_exact(value) / _exact(step)).denominator == 1


def _exact(value: float) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _string_rules(schema: Mapping[str, Any]) -> Iterator[Rule]:
    for key, code, least in (("minLength", "min_length", True), ("maxLength", "max_length", False)):
        limit = count(schema, key)
        if limit is not None:
            yield size_rule(code, limit, _is_text, least=least)
    pattern = schema.get("pattern")
    if pattern is not None:
        if not isinstance(pattern, str):
            raise BadKeyword("pattern must be a string")
        yield _pattern_rule(pattern)
    name = schema.get("format")
    if isinstance(name, str) and name in _FORMATS:
        yield _format_rule(name)


def _limit_rule(
    code: str, limit: Any, fits: Callable[[Any, Any], bool], applies: Callable[[Any], bool], measure: Callable[[Any], Any]
) -> Rule:
    def check(value: Any, path: Path, run: Run) -> None:
        if applies(value) and not fits(measure(value), limit):
            run.add(path, code, expected=limit)

    return check


def size_rule(code: str, limit: int, applies: Callable[[Any], bool], *, least: bool) -> Rule:
    """A least or greatest number of characters, items or fields."""
    return _limit_rule(code, limit, lambda size, bound: size >= bound if least else size <= bound, applies, len)


def _pattern_rule(pattern: str) -> Rule:
    matches = compile_pattern(pattern)

    def check(value: Any, path: Path, run: Run) -> None:
        if isinstance(value, str) and (found := matches(value, run)) is not True:
            run.add(path, "too_slow" if found is None else "pattern", hint=pattern if len(pattern) <= 80 else None)

    return check


def _email(value: str) -> None:
    name, at, host = value.rpartition("@")
    if not (name and at and host) or any(char.isspace() for char in value):
        raise ValueError(value)


def _internet_time(value: str) -> str:
    """RFC 3339 as Python reads it: a small t and z, and a leap second, are right too."""
    return re.sub(r"(?<=:\d\d):60(?!\d)", ":59", value.upper())


_FORMATS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "time": lambda value: time.fromisoformat(_internet_time(value)),
    "date-time": lambda value: datetime.fromisoformat(_internet_time(value)),
    "email": _email,
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
    "uuid": uuid.UUID,
}
"""Formats that are asserted, leniently; every other format is a note to the model."""


def _format_rule(name: str) -> Rule:
    parse = _FORMATS[name]

    def check(value: Any, path: Path, run: Run) -> None:
        if not isinstance(value, str):
            return
        try:
            parse(value)
        except ValueError:
            run.add(path, "format", expected=texts.FORMAT_WORDS[name])

    return check
