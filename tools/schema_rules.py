"""Leaf rules of the argument checker: types, enums, numbers, strings; each is compiled once from a schema's keywords."""

from __future__ import annotations

import json
import math
import time as clock
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import regex

from config.errors import YizhanError
from tools import texts

Path = tuple[str | int, ...]
Matcher = Callable[[str], bool | None]
_MATCH_S = 0.1
_MATCH_CHARS = 20_000
_NAME_CHARS = 80
_MAX_STEPS = 50_000
_STEPS_A_SECOND = 50_000
"""What matching a pattern costs, so that many slow ones end as soon as a single one."""

TYPE_ALIASES = {
    **dict.fromkeys(("string", "str", "text", "char", "character", "varchar"), "string"),
    **dict.fromkeys(("integer", "int", "long", "short", "byte", "bigint", "int32", "int64"), "integer"),
    **dict.fromkeys(("number", "float", "double", "decimal", "numeric"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "set", "arraylist", "sequence"), "array"),
    **dict.fromkeys(("object", "dict", "dictionary", "map", "hashmap", "mapping", "record"), "object"),
    **dict.fromkeys(("null", "none", "nonetype"), "null"),
}
"""Names that function lists in the wild use for the seven JSON types; lower-case."""
ANY_TYPES = frozenset({"any", "mixed", "unknown", ""})


class SchemaError(YizhanError):
    """A parameter schema cannot be used: a remote or missing $ref, an unknown type, a keyword of the wrong form."""

    code = "bad_schema"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a call's arguments. ``path`` is like ``items[0].name`` (empty: the whole), ``code`` stable,
    ``message`` Chinese for the person, ``suggestion`` the nearest name or the allowed values, or None."""

    path: str
    code: str
    message: str
    suggestion: str | None = None


class TooComplex(Exception):
    """The check took more steps than any honest call needs."""


@dataclass(slots=True)
class Run:
    """One check in progress: problems found, and what the cleaning pass will do (nulls to drop, 3.0 that means 3)."""

    problems: list[Problem] = field(default_factory=list)
    dropped: list[Path] = field(default_factory=list)
    integral: list[Path] = field(default_factory=list)
    steps: list[int] = field(default_factory=lambda: [0])

    def step(self, count: int = 1) -> None:
        """Count one schema applied to one value, over all branches."""
        self.steps[0] += count
        if self.steps[0] > _MAX_STEPS:
            raise TooComplex

    def matches(self, pattern: Matcher, value: str) -> bool | None:
        """Whether a pattern is found in a value; the time it takes counts as steps."""
        started = clock.perf_counter()
        found = pattern(value)
        self.step(round((clock.perf_counter() - started) * _STEPS_A_SECOND))
        return found

    def fork(self) -> Run:
        """A run for a branch that may turn out not to apply; it shares the step budget."""
        return Run(steps=self.steps)

    def merge(self, branch: Run) -> None:
        """Take over what a branch that applies wants cleaned."""
        self.dropped += branch.dropped
        self.integral += branch.integral

    def add(self, path: Path, code: str, *, suggestion: str | None = None, **words: object) -> None:
        """Record a problem; its message is built from texts.PROBLEMS."""
        shown = show_path(path)
        name = (shown if len(shown) <= _NAME_CHARS else shown[:_NAME_CHARS] + "…") or texts.ARGUMENTS
        message = texts.PROBLEMS[code].format(**{"name": name, "given": "", "expected": "", **words})
        self.problems.append(Problem(shown, code, message, suggestion))


Rule = Callable[[Any, Path, Run], None]


def show_path(path: Path) -> str:
    """A path as people read it: ``items[0].name``."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else (f".{part}" if shown else part)
    return shown


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


def canonical(value: Any) -> str:
    """Equal JSON values give equal text: sorted keys, 1.0 as 1; True and 1 differ."""
    return json.dumps(_plain_numbers(value), sort_keys=True, ensure_ascii=False, default=str)


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (list, tuple)):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain_numbers(item) for key, item in value.items()}
    return value


def read_types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The JSON types a schema allows, or None for any. Aliases are understood; a shape without a type implies one."""
    given = schema.get("type")
    words = given if isinstance(given, list) else [given]
    if given is None:
        if any(key in schema for key in ("enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "if")):
            return None
        implied = "object" if "properties" in schema else "array" if {"items", "prefixItems"} & schema.keys() else None
        return None if implied is None else frozenset({implied})
    found = set()
    for word in words:
        lowered = str(word).strip().lower() if word is not None else "null"
        if lowered in ANY_TYPES:
            return None
        if lowered not in TYPE_ALIASES:
            raise SchemaError(f"unknown type {word!r}")
        found.add(TYPE_ALIASES[lowered])
    return frozenset(found | ({"null"} if schema.get("nullable") is True else set()))


def value_rules(schema: Mapping[str, Any]) -> Iterator[Rule]:
    """Rules for enum, const, numbers and strings."""
    if isinstance(schema.get("enum"), list):
        yield _enum_rule(schema["enum"], nullable=schema.get("nullable") is True)
    if "const" in schema:
        yield _enum_rule([schema["const"]], nullable=False, code="const")
    yield from _number_rules(schema)
    yield from _string_rules(schema)


def _enum_rule(values: list[Any], *, nullable: bool, code: str = "enum") -> Rule:
    allowed = {canonical(value) for value in values} | ({"null"} if nullable else set())
    shown = "、".join(str(value) for value in values[:20])

    def check(value: Any, path: Path, run: Run) -> None:
        if canonical(value) not in allowed:
            run.add(path, code, expected=shown, suggestion=texts.SUGGEST_VALUES.format(values=shown))

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number_rules(schema: Mapping[str, Any]) -> Iterator[Rule]:
    for key, code, fits in (
        ("minimum", "minimum", lambda value, limit: value >= limit),
        ("maximum", "maximum", lambda value, limit: value <= limit),
        ("exclusiveMinimum", "exclusive_minimum", lambda value, limit: value > limit),
        ("exclusiveMaximum", "exclusive_maximum", lambda value, limit: value < limit),
    ):
        limit = schema.get(key)
        if limit is True:  # draft 4: a flag on minimum / maximum
            limit = schema.get("minimum" if key == "exclusiveMinimum" else "maximum")
        if _is_number(limit):
            yield _limit_rule(code, limit, fits, _is_number, lambda value: value)
    step = schema.get("multipleOf")
    if _is_number(step) and step is not None and step > 0:
        yield _limit_rule("multiple_of", step, _is_multiple, _is_number, lambda value: value)


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        return Decimal(str(value)) % Decimal(str(step)) == 0
    except InvalidOperation:
        return False


def _string_rules(schema: Mapping[str, Any]) -> Iterator[Rule]:
    for key, code, fits in (
        ("minLength", "min_length", lambda value, limit: value >= limit),
        ("maxLength", "max_length", lambda value, limit: value <= limit),
    ):
        if _is_number(schema.get(key)):
            yield _limit_rule(code, schema[key], fits, lambda value: isinstance(value, str), len)
    if isinstance(schema.get("pattern"), str):
        yield _pattern_rule(schema["pattern"])
    if schema.get("format") in _FORMATS:
        yield _format_rule(schema["format"])


def _limit_rule(
    code: str, limit: Any, fits: Callable[[Any, Any], bool], applies: Callable[[Any], bool], measure: Callable[[Any], Any]
) -> Rule:
    def check(value: Any, path: Path, run: Run) -> None:
        if applies(value) and not fits(measure(value), limit):
            run.add(path, code, expected=limit)

    return check


def size_rule(code: str, limit: Any, kind: type, *, least: bool) -> Rule:
    """A least or greatest number of items or fields."""
    return _limit_rule(
        code, limit, lambda size, bound: size >= bound if least else size <= bound, lambda value: isinstance(value, kind), len
    )


def compile_pattern(pattern: str) -> Matcher:
    """An ECMA pattern, searched with a time limit; None means it could not be decided. ``$`` is the very end, never
    before a trailing newline. Raises SchemaError for a pattern that does not compile."""
    try:
        compiled = regex.compile(_strict_end(pattern), regex.VERSION0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise SchemaError(f"the pattern does not compile: {type(error).__name__}") from None

    def matches(value: str) -> bool | None:
        if len(value) > _MATCH_CHARS:
            return None
        try:
            return compiled.search(value, timeout=_MATCH_S) is not None
        except TimeoutError:
            return None

    return matches


def _strict_end(pattern: str) -> str:
    out, index, in_class = [], 0, False
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            out.append(pattern[index : index + 2])
            index += 2
            continue
        if char == "[" and not in_class:
            in_class = True
        elif char == "]":
            in_class = False
        out.append(r"\Z" if char == "$" and not in_class else char)
        index += 1
    return "".join(out)


def _pattern_rule(pattern: str) -> Rule:
    compiled = compile_pattern(pattern)

    def check(value: Any, path: Path, run: Run) -> None:
        if isinstance(value, str) and (found := run.matches(compiled, value)) is not True:
            run.add(path, "too_slow" if found is None else "pattern", suggestion=pattern if len(pattern) <= 80 else None)

    return check


def _email(value: str) -> None:
    name, at, host = value.rpartition("@")
    if not (name and at and host) or any(char.isspace() for char in value):
        raise ValueError(value)


_FORMATS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "date-time": datetime.fromisoformat,
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
