"""Every recorded valid call, varied: what is still right is accepted, each single fault is refused where it is."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from tests.shared_data import shared_path
from tools.schema import Checker, compile_schema
from tools.schema_rules import fits_type, read_types
from tools.schema_run import Path, show_path

WRONG: list[Any] = ["x", "12", "true", 7, 1.5, True, False, ["x"], [], {}, {"a": 1}, None]


@dataclass(frozen=True)
class Place:
    """One value of a call, what its schema says, and whether a null there counts as absent."""

    path: Path
    schema: dict[str, Any]
    value: Any
    optional: bool


def places(schema: dict[str, Any], value: Any, path: Path = (), *, optional: bool = False) -> Iterator[Place]:
    """Every value of a call that its schema speaks of, from the whole downwards."""
    yield Place(path, schema, value, optional)
    if isinstance(value, dict):
        for name, sub in schema.get("properties", {}).items():
            if name in value:
                yield from places(sub, value[name], (*path, name), optional=name not in schema.get("required", ()))
    for index, item in enumerate(value if isinstance(value, list) and "items" in schema else ()):
        yield from places(schema["items"], item, (*path, index))


def replaced(arguments: Any, path: Path, value: Any) -> Any:
    """The arguments with one value changed."""
    changed = copy.deepcopy(arguments)
    holder = changed
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return changed


@cache
def valid_calls() -> list[tuple[Checker, dict[str, Any], dict[str, Any]]]:
    """The valid calls, each with its checker and schema."""
    path = shared_path("data/tools/calls.jsonl")
    if path is None:
        return []
    calls = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [(compile_schema(c["parameters"]), c["parameters"], c["arguments"]) for c in calls if c["valid"]]


@pytest.fixture(autouse=True)
def _recorded() -> None:
    if not valid_calls():
        pytest.skip("reference data data/tools/calls.jsonl is not beside the checkout (YIZHAN_SHARED)")


def expect(checker: Checker, arguments: Any, path: Path, code: str) -> list[str]:
    """The suggestion for the one problem this fault must be; fails with the call where it is not."""
    found = checker.check(arguments)
    assert [(problem.path, problem.code) for problem in found] == [(show_path(path), code)], arguments
    assert (show_path(path) or "参数")[:80] in found[0].message
    return [problem.suggestion or "" for problem in found]


def test_a_value_of_any_other_type_is_refused_where_it_is() -> None:
    """S001-54 S11: at every depth, inside lists too; no coercion of numeric text, of a bool, of a single item."""
    tried = 0
    for checker, schema, arguments in valid_calls():
        for place in places(schema, arguments):
            types = read_types(place.schema)
            if not place.path or types is None:
                continue
            for value in [*WRONG, [place.value], json.dumps(place.value)]:
                if not fits_type(value, types) and not (value is None and place.optional):
                    expect(checker, replaced(arguments, place.path, value), place.path, "type")
                    tried += 1
    assert tried > 10_000


def test_a_missing_field_is_named_at_every_depth() -> None:
    """S001-54 S11."""
    tried = 0
    for checker, schema, arguments in valid_calls():
        for place in places(schema, arguments):
            for name in place.schema.get("required", ()) if isinstance(place.value, dict) else ():
                rest = {key: value for key, value in place.value.items() if key != name}
                whole = replaced(arguments, place.path, rest) if place.path else rest
                expect(checker, whole, (*place.path, name), "missing")
                tried += 1
    assert tried > 500


def test_an_unknown_field_is_refused_at_every_depth_and_the_meant_one_offered() -> None:
    """S001-54 S11: a slip in an optional field's name is offered the right one; a strange name gets the list."""
    slips = strange = 0
    for checker, schema, arguments in valid_calls():
        for place in places(schema, arguments):
            names = place.schema.get("properties")
            if not names or not isinstance(place.value, dict):
                continue
            for name in ("region_cn_north", "", "__proto__"):
                whole = {**place.value, name: "x"}
                whole = replaced(arguments, place.path, whole) if place.path else whole
                [hint] = expect(checker, whole, (*place.path, name), "unknown_field")
                assert hint
                strange += 1
            for name in [one for one in names if one in place.value and one not in place.schema.get("required", ())]:
                whole = {(key if key != name else key.upper() + "_"): value for key, value in place.value.items()}
                whole = replaced(arguments, place.path, whole) if place.path else whole
                [hint] = expect(checker, whole, (*place.path, name.upper() + "_"), "unknown_field")
                assert len(name) < 2 or hint == f"是不是“{name}”？"
                slips += 1
    assert strange > 1000
    assert slips > 100


def test_an_enum_value_that_is_nearly_right_is_refused_and_the_right_one_offered() -> None:
    """S001-54 S11: neither case nor spacing is repaired."""
    tried = 0
    for checker, schema, arguments in valid_calls():
        for place in places(schema, arguments):
            for value in [one for one in place.schema.get("enum", ()) if isinstance(one, str)]:
                for near in {value + " ", value.swapcase(), value + "x"} - set(place.schema["enum"]):
                    [hint] = expect(checker, replaced(arguments, place.path, near), place.path, "enum")
                    assert len(value) < 2 or hint.startswith("是不是“")
                    tried += 1
    assert tried > 500


def test_what_says_the_same_is_accepted() -> None:
    """The order of fields, an optional one left out or null, a whole number written 3.0: all are the same call."""
    for checker, schema, arguments in valid_calls():
        assert checker.examine(arguments) == (arguments, [])
        assert checker.check(dict(reversed(arguments.items()))) == []
        for place in places(schema, arguments):
            types = read_types(place.schema)
            if isinstance(place.value, int) and types == frozenset({"integer"}):
                cleaned, problems = checker.examine(replaced(arguments, place.path, float(place.value)))
                assert (json.dumps(cleaned), problems) == (json.dumps(arguments), [])
            if types == frozenset({"number"}):
                assert checker.check(replaced(arguments, place.path, 3)) == []
            if place.optional and len(place.path) == 1:
                without = {name: value for name, value in arguments.items() if name != place.path[0]}
                assert checker.check(without) == []
                assert checker.examine(replaced(arguments, place.path, None)) == (without, [])
