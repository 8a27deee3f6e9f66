"""The argument checker: every problem found, every correct call accepted, nothing from outside, always soon."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared_data import shared_path
from tools.schema import Problem, SchemaError, compile_schema


def problems(schema: Any, arguments: Any) -> list[tuple[str, str]]:
    """What is wrong, as (path, code)."""
    return [(problem.path, problem.code) for problem in compile_schema(schema).check(arguments)]


def calls() -> list[dict[str, Any]]:
    """The recorded calls."""
    path = shared_path("data/tools/calls.jsonl")
    if path is None:
        pytest.skip("reference data data/tools/calls.jsonl is not beside the checkout (YIZHAN_SHARED)")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_recorded_calls() -> None:
    """S001-54 S11: every valid call accepted, every invalid one refused, with the field it is about."""
    wrong = []
    for call in calls():
        found = compile_schema(call["parameters"]).check(call["arguments"])
        useful = call["valid"] or call["why"] == "unknown field" or any(item.path in call["why"] for item in found)
        if bool(found) == call["valid"] or not useful:
            wrong.append((call["tool"], call.get("why"), found))
    assert wrong == []


HOST = {"type": "object", "properties": {"host": {"type": "string"}, "count": {"type": "integer"}}, "required": ["host"]}


def test_unknown_fields_are_refused_and_the_nearest_name_offered() -> None:
    """S001-54 S11: region=cn-north is not in the schema."""
    assert compile_schema(HOST).check({"host": "a", "hosts": 1}) == [
        Problem("hosts", "unknown_field", "没有“hosts”这个参数", "可选：count、host")
    ]
    assert compile_schema(HOST).check({"hots": "a"}) == [
        Problem("host", "missing", "缺少参数“host”"),
        Problem("hots", "unknown_field", "没有“hots”这个参数", "是不是“host”？"),
    ]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["", "x"], [1, 1.5, True, [], {}]),
        ("integer", [0, -3, 2**80, 3.0], ["3", 3.5, True, False, [1]]),
        ("number", [1, 1.5, -2e9], ["1", True, [1]]),
        ("boolean", [True, False], [0, 1, "true"]),
        ("array", [[], [1, "x"]], ["x", {}, 1]),
        ("object", [{}, {"any": 1}], [[], "x", 1]),
        ("dict", [{}], ["x"]),
        ("float", [1, 1.5], ["x", True]),
        ("tuple", [[1, 2]], ["x"]),
        ("any", [1, "x", [], {}, True], []),
        ("String", ["x"], [1]),
        ("ArrayList", [[1]], [1]),
        ("HashMap", [{"a": 1}], [1]),
        ("Hashtable", [{"a": 1}], [[1]]),
        ("Queue", [[1]], [{}]),
        ("Stack", [[1]], ["x"]),
        ("Bigint", [1], ["1"]),
        ("long", [1], ["1"]),
        (["string", "null"], ["x", None], [1]),
    ],
)
def test_types(kind: Any, good: list[Any], bad: list[Any]) -> None:
    """No coercion, bool is no integer, 3.0 is (JSON knows one kind of number); the odd type names of function lists."""
    schema = {"type": "object", "properties": {"x": {"type": kind}}, "required": ["x"]}
    assert [value for value in good if problems(schema, {"x": value})] == []
    assert [value for value in bad if problems(schema, {"x": value}) != [("x", "type")]] == []


def test_cleaning() -> None:
    """Nulls of optional fields are dropped at every level, 3.0 becomes 3 where an integer is asked for, nothing else moves."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": ["string", "null"]},
            "c": {"type": "object", "properties": {"d": {"type": "string"}, "e": {"type": "integer"}}, "required": ["e"]},
        },
        "required": ["a"],
    }
    checker = compile_schema(schema)
    given_ = {"a": 3.0, "b": None, "c": {"d": None, "e": 1}}
    assert checker.examine(given_) == ({"a": 3, "b": None, "c": {"e": 1}}, [])
    assert given_["c"] == {"d": None, "e": 1}
    assert isinstance(checker.examine(given_)[0]["a"], int)
    assert problems(schema, {"a": None}) == [("a", "type")]
    assert problems(schema, {"a": 1, "c": {"e": None}}) == [("c.e", "type")]


def test_nested_objects_are_closed_and_free_ones_are_free() -> None:
    """An object that lists its fields is closed at every level; one that lists none takes anything; the call itself is
    closed always."""
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"in": inner, "free": {"type": "object"}, "list": {"type": "array", "items": inner}},
    }
    assert problems(schema, {"in": {"b": 1}}) == [("in.b", "unknown_field")]
    assert problems(schema, {"free": {"b": 1}}) == []
    assert problems(schema, {"list": [{"a": "x"}, {"z": 1}]}) == [("list[1].z", "unknown_field")]
    assert problems({"type": "object", "properties": {"m": {"type": "object", "properties": {}}}}, {"m": {"b": 1}}) == []
    assert problems({"type": "object", "properties": {"a": {}}, "required": ["b"]}, {"b": 1}) == []
    assert problems({"type": "object"}, {"x": 1}) == [("x", "unknown_field")]
    assert problems({"type": "object", "properties": {}}, {"x": 1}) == [("x", "unknown_field")]
    assert problems({}, {"x": 1}) == [("x", "unknown_field")]
    assert problems({"type": "object", "additionalProperties": True}, {"x": 1}) == []
    assert problems({"type": "object", "additionalProperties": {"type": "integer"}}, {"x": 1, "y": "z"}) == [("y", "type")]
    assert problems({"type": "object", "patternProperties": {"^x_": {"type": "integer"}}}, {"x_a": 1, "y": 1}) == [
        ("y", "unknown_field")
    ]


@pytest.mark.parametrize(
    ("schema", "good", "bad", "code"),
    [
        ({"enum": ["a", "b", 1]}, ["a", 1, 1.0], ["c", True], "enum"),
        ({"const": "a"}, ["a"], ["b"], "const"),
        ({"type": "number", "minimum": 1}, [1, 2], [0], "minimum"),
        ({"type": "number", "maximum": 1}, [1], [1.1], "maximum"),
        ({"type": "number", "exclusiveMinimum": 1}, [1.1], [1], "exclusive_minimum"),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, [2], [1], "exclusive_minimum"),
        ({"type": "number", "exclusiveMaximum": 1}, [0], [1], "exclusive_maximum"),
        ({"type": "number", "multipleOf": 0.1}, [0.3, 1], [0.35], "multiple_of"),
        ({"type": "string", "minLength": 2}, ["ab", "中文"], ["a"], "min_length"),
        ({"type": "string", "maxLength": 2}, ["ab"], ["abc"], "max_length"),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["abc\n", "A", ""], "pattern"),
        ({"type": "string", "format": "date"}, ["2026-01-31"], ["31.1.2026"], "format"),
        ({"type": "string", "format": "date-time"}, ["2026-01-31T09:00:00+08:00", "2026-01-31T09:00:00Z"], ["soon"], "format"),
        ({"type": "string", "format": "date-time"}, ["2026-01-31t09:00:00z", "2016-12-31T23:59:60Z"], ["23:59:60"], "format"),
        ({"type": "string", "format": "time"}, ["23:59:60Z", "09:30:00.5z"], ["9 o'clock"], "format"),
        ({"type": "string", "format": "email"}, ["a@b.c"], ["a b@c", "x"], "format"),
        ({"type": "string", "format": "ipv4"}, ["10.0.0.1"], ["10.0.0.256"], "format"),
        ({"type": "string", "format": "unheard-of"}, ["x"], [], ""),
        ({"type": "array", "minItems": 1}, [[1]], [[]], "min_items"),
        ({"type": "array", "maxItems": 1}, [[1]], [[1, 2]], "max_items"),
        ({"type": "array", "uniqueItems": True}, [[1, True]], [[1, 1.0]], "unique_items"),
        ({"type": "array", "contains": {"type": "string"}}, [[1, "a"]], [[1]], "contains"),
        ({"type": "object", "minProperties": 1}, [{"a": 1}], [{}], "min_properties"),
        ({"type": "object", "maxProperties": 1}, [{"a": 1}], [{"a": 1, "b": 2}], "max_properties"),
        ({"not": {"type": "string"}}, [1], ["x"], "not_allowed"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ["x", 1], [1.5], "any_of"),
        ({"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 7}]}, [1, 9], [6], "one_of"),
        ({"type": "string", "nullable": True}, ["x", None], [1], "type"),
        ({"type": "string", "nullable": True, "enum": ["x"]}, ["x", None], ["y"], "enum"),
    ],
)
def test_keywords(schema: dict[str, Any], good: list[Any], bad: list[Any], code: str) -> None:
    """The vocabulary of function schemas."""
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    assert [value for value in good if problems(whole, {"x": value})] == []
    assert [value for value in bad if problems(whole, {"x": value}) != [("x", code)]] == []


def test_arrays_by_position() -> None:
    """prefixItems, and the older items list."""
    for schema in (
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
    ):
        whole = {"type": "object", "properties": {"x": schema}}
        assert problems(whole, {"x": ["a", 1]}) == []
        assert problems(whole, {"x": ["a", "b"]}) == [("x[1]", "type")]
        assert problems(whole, {"x": ["a", 1, 2]}) == [("x[2]", "never")]


def test_dependencies() -> None:
    """dependentRequired and its older spelling."""
    for key in ("dependentRequired", "dependencies"):
        schema = {"type": "object", "properties": {"a": {}, "b": {}}, key: {"a": ["b"]}}
        assert problems(schema, {"a": 1}) == [("b", "dependency")]
        assert problems(schema, {"a": 1, "b": 1}) == []


def test_local_references_and_recursion() -> None:
    """$defs, definitions, anchors and a tree that contains itself."""
    tree = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                "required": ["name"],
            }
        },
    }
    assert problems(tree, {"root": {"name": "a", "children": [{"name": "b", "children": []}]}}) == []
    assert problems(tree, {"root": {"name": "a", "children": [{"name": 1}]}}) == [("root.children[0].name", "type")]
    assert problems(tree, {"root": {"name": "a", "x": 1}}) == [("root.x", "unknown_field")]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"$ref": "https://example.com/schema.json"}}},
        {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"x": {"$ref": "other.json#/a"}}},
        {"properties": {"x": {"$ref": "#/$defs/nowhere"}}},
        {"properties": {"x": {"$ref": "#nowhere"}}},
        {"properties": {"x": {"type": "strng"}}},
        {"properties": {"x": {"type": "string", "pattern": "("}}},
        {"properties": {"x": 5}},
        {"properties": [1]},
    ],
)
def test_schemas_that_can_never_be_checked(schema: dict[str, Any]) -> None:
    """No remote $ref, no unknown type: a bad tool is found at start."""
    with pytest.raises(SchemaError):
        compile_schema(schema)


_ENDLESS = {"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["z"]}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"x": {"type": "string", "pattern": "^(a|a)*$"}}}, {"x": "a" * 5000 + "b"}),
        ({"properties": {"x": {"type": "string", "pattern": "(x+x+)+y"}}}, {"x": "x" * 5000}),
        ({"properties": {"x": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}}, {"x": "a" * 3000}),
        ({"$ref": "#"}, {"x": 1}),
        ({"allOf": [{"$ref": "#"}]}, {}),
        (
            {
                "$defs": {"n": {"anyOf": [{"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["z"]}] * 8}},
                "$ref": "#/$defs/n",
            },
            json.loads('{"n":' * 30 + "{}" + "}" * 30),
        ),
    ],
)
def test_nothing_hangs(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Catastrophic patterns and endless references end in a problem, soon."""
    started, began = time.process_time(), time.monotonic()
    assert compile_schema(schema).check(arguments) != []
    assert time.process_time() - started < 3
    assert time.monotonic() - began < 30, "not even on a busy machine"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(_JSON)
def test_any_value_is_checked_without_an_error(value: Any) -> None:
    """Whatever comes is judged, never raised about; only objects are calls."""
    found = compile_schema(HOST).check(value)
    assert found or (isinstance(value, dict) and isinstance(value.get("host"), str))


def test_many_slow_patterns_end_as_soon_as_one() -> None:
    """A pattern that backtracks costs its time once, not once an item."""
    slow = {"type": "array", "items": {"type": "string", "pattern": "^([ab]|[ba]|ab)+$"}}
    started = time.monotonic()
    problems = compile_schema({"type": "object", "properties": {"x": slow}}).check({"x": ["ab" * 14 + "!"] * 2000})
    assert [problem.code for problem in problems] == ["too_complex"]
    assert time.monotonic() - started < 10


def test_thousands_of_unknown_fields_are_found_at_once() -> None:
    """Each is a problem; the nearest name is looked for only as long as somebody may read it, and long names are cut."""
    schema = {"type": "object", "properties": {f"property_{number}": {} for number in range(30)}}
    started = time.monotonic()
    problems = compile_schema(schema).check({**{f"propert_{number}": 1 for number in range(6000)}, "x" * 50_000: 1})
    assert len(problems) == 6001
    assert problems[0].suggestion == "是不是“property_0”？"
    assert max(len(problem.message) for problem in problems) < 120
    assert time.monotonic() - started < 10


def test_multiples_of_big_numbers() -> None:
    """Integers are exact at any size."""
    checker = compile_schema({"type": "object", "properties": {"x": {"type": "integer", "multipleOf": 10}}})
    assert checker.check({"x": 10**40}) == []
    assert [problem.code for problem in checker.check({"x": 10**40 + 1})] == ["multiple_of"]
