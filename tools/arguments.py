"""Reads a call's arguments from JSON strictly: duplicate keys, NaN, depth and size are refused, nothing is repaired."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tools import texts
from tools.prompt import visible
from tools.schema_run import Problem

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
_MAX_INTEGER_DIGITS = 100
_EXACT_FLOATS = 2**53
_BLANK = " \t\r\n"


class _Bad(Exception):
    def __init__(self, code: str, name: str = "") -> None:
        super().__init__(code)
        self.problem = Problem("", code, texts.PROBLEMS[code].format(name=visible(name), given="", expected=""))


def parse_arguments(given: str | bytes | Mapping[str, Any]) -> tuple[dict[str, Any], Problem | None]:
    """The arguments object of a call and None, or an empty dict and what is wrong with it. Never raises.

    A mapping (arguments that were parsed before) passes the same limits.
    """
    try:
        text = given if isinstance(given, (str, bytes)) else json.dumps(given, ensure_ascii=False, default=_mapping)
        value = _parse(text)
    except _Bad as error:
        return {}, error.problem
    except (TypeError, ValueError, RecursionError):
        return {}, _Bad("bad_json").problem
    return value, None


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def _parse(text: str | bytes) -> dict[str, Any]:
    if len(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _Bad("too_large")
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    if _depth(text) > MAX_DEPTH:
        raise _Bad("too_deep")
    value = json.loads(
        text.strip(_BLANK) or "{}", object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_integer
    )
    if not isinstance(value, dict):
        raise _Bad("not_an_object")
    text.encode("utf-8")  # a lone surrogate inside an escape cannot be stored or sent
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside strings."""
    depth = deepest = index = 0
    in_string = False
    while index < len(text):
        char = text[index]
        if in_string and char == "\\":
            index += 1  # the escaped character says nothing
        elif char == '"':
            in_string = not in_string
        elif not in_string and char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not in_string and char in "]}":
            depth -= 1
        index += 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Bad("duplicate_key", key[:40])
        found[key] = value
    return found


def _constant(word: str) -> Any:
    raise _Bad("not_finite")


def _float(text: str) -> float | int:
    value = float(text)
    if not math.isfinite(value):
        raise _Bad("not_finite")
    if abs(value) >= _EXACT_FLOATS:  # a whole number written 12345678901234567.0 keeps its digits
        exact = Decimal(text)
        if exact.adjusted() < _MAX_INTEGER_DIGITS and exact == exact.to_integral_value():
            return int(exact)
    return value


def _integer(text: str) -> int:
    if len(text) > _MAX_INTEGER_DIGITS:
        raise _Bad("too_large")
    return int(text)
