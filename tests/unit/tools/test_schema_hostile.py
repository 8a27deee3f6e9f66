"""Schemas from outside: whatever their form, they compile or are refused with one error that says where, and cost little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tools import schema as compiler
from tools import schema_run
from tools.schema import SchemaError, compile_schema

NAN, INFINITE = float("nan"), float("inf")


def x(schema: Any) -> dict[str, Any]:
    """An object whose field x has this schema."""
    return {"type": "object", "properties": {"x": schema}}


def nested(depth: int, wrap: Callable[[Any], Any], leaf: Any = True) -> Any:
    """A value inside itself, as often as asked."""
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


def circle() -> dict[str, Any]:
    """A schema that holds itself."""
    whole: dict[str, Any] = {"properties": {}}
    whole["properties"]["x"] = whole
    return whole


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (x({"minimum": "3"}), "properties/x: minimum must be a number"),
        (x({"maximum": NAN}), "properties/x: maximum must be a number"),
        (x({"exclusiveMinimum": INFINITE}), "properties/x: exclusiveMinimum must be a number"),
        (x({"minimum": 10**5000}), "properties/x: minimum must be a number"),
        (x({"multipleOf": 0}), "properties/x: multipleOf must be above 0"),
        (x({"minLength": -1}), "properties/x: minLength must be a whole number, not below 0"),
        (x({"minItems": True}), "properties/x: minItems must be a number"),
        (x({"maxItems": 1.5}), "properties/x: maxItems must be a whole number, not below 0"),
        (x({"pattern": 5}), "properties/x: pattern must be a string"),
        (x({"enum": "abc"}), "properties/x: enum must be a list"),
        (x({"type": []}), "properties/x: type must name a type"),
        (x({"type": {"a": 1}}), "properties/x: unknown type"),
        (x({"items": 5}), "properties/x/items: a schema must be an object, not int"),
        (x({"anyOf": []}), "properties/x: anyOf must name a schema"),
        (x({"allOf": {}}), "properties/x: allOf must be a list"),
        (x({"$ref": 5}), "properties/x: a $ref may only point inside"),
        (x({"$ref": "file:///etc/passwd"}), "properties/x: a $ref may only point inside"),
        (x({"$dynamicRef": "https://example.com/s#n"}), "properties/x: a $ref may only point inside"),
        ({"$ref": "#/allOf/-1", "allOf": [{}]}, "$ref #/allOf/-1 points nowhere"),
        ({"properties": "a"}, "the schema: properties must be an object"),
        ({"required": "a"}, "the schema: required must be a list"),
        ({"additionalProperties": "false"}, "additionalProperties: a schema must be an object, not str"),
        ({"patternProperties": [1]}, "the schema: patternProperties must be an object"),
        ({"dependentRequired": {"a": 5}}, "dependentRequired/a: a schema must be an object"),
        ({"type": "string"}, "the parameters must be an object"),
        ({"type": "array", "items": {}}, "the parameters must be an object"),
        ([], "the schema: a schema must be an object, not list"),
        ("x", "the schema: a schema must be an object, not str"),
        (nested(10_000, x), "nested too deep"),
        (nested(10_000, lambda inner: {"allOf": [inner]}), "nested too deep"),
        (x({"enum": [nested(10_000, lambda inner: [inner])]}), "nested too deep"),
        (circle(), "nested too deep"),
        ({"properties": {f"p{number}": {} for number in range(30_000)}}, "too large"),
    ],
)
def test_a_schema_of_the_wrong_form_is_refused_and_the_place_named(schema: Any, where: str) -> None:
    """One typed error with a clear message, at start."""
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    assert where in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "a{999999999}",
        "(?:a{65535}){65535}",
        "(?:(?:(?:a?){1000}){1000}){1000}b",
        "(?:" * 1000 + "a" + "){2}" * 1000,
        "a{1000}{1000}{1000}",
        "a{0009000000,}",
        r"\p{L}{9000000}",
        "[]a]{9000000}",
        "(?x) a{ 9000000 }",
        "(" * 5000,
        "a" * 10_000,
    ],
)
def test_a_pattern_that_would_fill_the_memory_is_never_built(pattern: str) -> None:
    """The engine writes least repeats out: twelve characters could take gigabytes."""
    schemas: list[dict[str, Any]] = [x({"pattern": pattern}), {"patternProperties": {pattern: {}}}]
    for schema in schemas:
        with pytest.raises(SchemaError, match="the pattern"):
            compile_schema(schema)


@pytest.mark.parametrize("pattern", ["^[a-z]{1,5000}$", r"^\d{4}-\d{2}$", "(a{0,1000}){0,1000}", r"^[$]\$$", "^[一-龥]{2,20}$"])
def test_patterns_of_real_tools_compile(pattern: str) -> None:
    """A range of repeats costs nothing."""
    compile_schema(x({"pattern": pattern}))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {
                "properties": {
                    "type": {"type": "string"},
                    "$ref": {"type": "integer"},
                    "properties": {"type": "object", "properties": {"required": {"type": "boolean"}}},
                    "enum": {"type": "array"},
                    "__proto__": {"type": "string"},
                },
                "required": ["$ref"],
            },
            {"type": "a", "$ref": 1, "properties": {"required": True}, "enum": [], "__proto__": "p"},
            {"$ref": "1"},
        ),
        ({"properties": {1: {"type": "string"}, None: {}}}, {"1": "a"}, {"1": 1}),
        ({"properties": {"a": {}}, "required": ["b"]}, {"b": 1}, {"a": 1}),
        (x({"type": "string", "x-own": {}, "$comment": 1, "format": {"a": 1}, "examples": 3}), {"x": "a"}, {"x": 1}),
        (x({"type": [None, "string"]}), {"x": None}, {"x": 1}),
        (x({"enum": ("a", "b")}), {"x": "a"}, {"x": "c"}),
        (x({"multipleOf": 0.01}), {"x": 1e30}, {"x": 0.001}),
        (x({"multipleOf": 1e-300}), {"x": 1e300}, {"x": 1e-301}),
        (x({"enum": [10**5000]}), {"x": 10**5000}, {"x": 10**5000 + 1}),
        (x({"type": "integer"}), {"x": 10**5000}, {"x": NAN}),
        (True, {}, {"a": 1}),
        (None, {}, {"a": 1}),
        ({"$defs": {"a b/c": {"type": "string"}}, **x({"$ref": "#/$defs/a%20b~1c"})}, {"x": "a"}, {"x": 1}),
        ({"$defs": {"n": {"$anchor": "n", "type": "string"}}, **x({"$ref": "#n"})}, {"x": "a"}, {"x": 1}),
        ({"properties": {"c": {"$recursiveRef": "#"}}}, {"c": {"c": {}}}, {"c": {"c": {"d": 1}}}),
        (
            {"properties": {"c": {"$dynamicRef": "#c"}}, "$defs": {"c": {"$dynamicAnchor": "c", "type": "string"}}},
            {"c": "a"},
            {"c": 1},
        ),
    ],
)
def test_odd_schemas_mean_what_they_say(schema: Any, good: Any, bad: Any) -> None:
    """Fields named like keywords, names that are no text, numbers of any size, references in every spelling."""
    checker = compile_schema(schema)
    assert checker.check(good) == []
    assert checker.check(bad) != []


def test_a_chain_of_references_of_any_length_compiles() -> None:
    """Each target by itself, so nothing is nested; one that is followed too far ends the check, not the process."""
    chain = {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(10_000)} | {"10000": {"type": "string"}}
    checker = compile_schema({"$defs": chain, "properties": {"near": {"$ref": "#/$defs/9990"}, "far": {"$ref": "#/$defs/0"}}})
    assert checker.check({"near": "a"}) == []
    assert [problem.code for problem in checker.check({"near": 1})] == ["type"]
    assert [problem.code for problem in checker.check({"far": "a"})] == ["too_complex"]


def test_many_references_into_one_deep_schema_stay_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every spelling of a target is compiled once, and all of them together have a limit."""
    deep = nested(90, x)
    pointers = ["#/$defs/a" + "/properties/x" * (number % 90) for number in range(2000)]
    schema = {"$defs": {"a": deep}, "properties": {f"p{number}": {"$ref": pointer} for number, pointer in enumerate(pointers)}}
    compile_schema(schema)
    monkeypatch.setattr(compiler, "_MAX_NODES", 2000)
    with pytest.raises(SchemaError, match="too large"):
        compile_schema(schema)


def test_the_longest_list_of_optional_numbers_is_no_hang_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, not seconds: a full 64 KB of numbers passes, and steps grow as the arguments do."""
    checker = compile_schema(x({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}))
    assert checker.check({"x": [1] * 32_000}) == []
    monkeypatch.setattr(schema_run, "_MAX_STEPS", 310)
    assert checker.check({"x": [1] * 100}) == []
    assert [problem.code for problem in checker.check({"x": [1] * 110})] == ["too_complex"]


def test_a_check_never_raises_whatever_python_holds() -> None:
    """Values that no JSON text gives: names that are no text, endless depth, other sequences, lone surrogates."""
    checker = compile_schema(
        {
            "properties": {"a": {"type": "array", "uniqueItems": True}, "n": {"type": "array", "items": {"type": "integer"}}},
            "patternProperties": {"^b": {"enum": [1]}},
        }
    )
    assert [problem.path for problem in checker.check({1: 2, None: 3})] == ["1", "None"]
    assert [problem.code for problem in checker.check({"b": nested(10_000, lambda inner: [inner])})] == ["too_complex"]
    assert checker.examine({"n": (3.0, 4)}) == ({"n": [3, 4]}, [])
    for problem in checker.check({"\ud800": 1, "a\nb\u202e“确认 12”": 1}):
        problem.message.encode()
        assert "\n" not in problem.message
        assert "\u202e" not in problem.message
