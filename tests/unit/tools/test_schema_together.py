"""Several schemas of one value: which fields they let in together, which nulls stay, what is said when none fits."""

from __future__ import annotations

from typing import Any

from tools.schema import Problem, compile_schema


def problems(schema: Any, arguments: Any) -> list[tuple[str, str]]:
    """What is wrong, as (path, code)."""
    return [(problem.path, problem.code) for problem in compile_schema(schema).check(arguments)]


def test_combinations_know_each_others_fields() -> None:
    """allOf, anyOf, oneOf, if and $ref: a field that a fitting branch lists is known, any other is not."""
    shapes = {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "a": {"type": "string"}}, "required": ["kind", "a"]},
            {"type": "object", "properties": {"kind": {"const": "b"}, "b": {"type": "integer"}}, "required": ["kind", "b"]},
        ]
    }
    whole = {"type": "object", "properties": {"x": shapes}}
    assert problems(whole, {"x": {"kind": "a", "a": "x"}}) == []
    assert problems(whole, {"x": {"kind": "a", "a": "x", "b": 1}}) == [("x.b", "unknown_field")]
    assert problems(whole, {"x": {"kind": "b", "b": "no"}}) == [("x.b", "type")]
    both = {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}, "required": ["b"]}]}
    assert problems(both, {"a": "x", "b": "y"}) == []
    assert problems(both, {"a": "x", "c": "y"}) == [("b", "missing"), ("c", "unknown_field")]
    loose = {"type": "object", "properties": {"x": {"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}}}
    assert problems(loose, {"x": {"a": 1}}) == []
    when = {
        "type": "object",
        "properties": {"repeat": {"type": "boolean"}},
        "if": {"properties": {"repeat": {"const": True}}, "required": ["repeat"]},
        "then": {"properties": {"every": {"type": "string"}}, "required": ["every"]},
    }
    assert problems(when, {"repeat": True}) == [("every", "missing")]
    assert problems(when, {"repeat": False}) == []
    assert problems(when, {"repeat": True, "every": "day"}) == []


def test_schemas_of_one_object_close_it_together() -> None:
    """An object inside is closed once all schemas that apply to it have spoken, not by the first."""
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    more = {"properties": {"o": {"properties": {"b": {"type": "integer"}}}}}
    for combined in (
        {"allOf": [more]},
        {"anyOf": [more]},
        {"if": more, "then": True},
        {"patternProperties": {"^o$": more["properties"]["o"]}},
    ):
        schema = {"type": "object", "properties": {"o": inner}, **combined}
        assert problems(schema, {"o": {"a": "x", "b": 1}}) == []
        assert problems(schema, {"o": {"a": "x", "c": 1}}) == [("o.c", "unknown_field")]
    asked = {
        "type": "object",
        "properties": {"o": {"type": "object"}},
        "not": {"properties": {"o": {**inner, "required": ["a"]}}, "required": ["o"]},
    }
    assert problems(asked, {"o": {"a": "x", "free": 1}}) == [("", "not_allowed")]
    rest = {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}}], "unevaluatedProperties": {"type": "integer"}}
    assert problems(rest, {"a": "x", "b": 1}) == []
    assert problems(rest, {"a": "x", "b": "y"}) == [("b", "type")]


def test_one_of_prefers_the_branch_that_lists_every_field() -> None:
    """Of branches that fit with unknown fields the one without is meant; when none is, the nearest says what is unknown."""
    either = {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]}
    whole = {"type": "object", "properties": {"x": either}, "required": ["x"]}
    assert problems(whole, {"x": {"a": 1}}) == []
    assert problems(whole, {"x": {"c": 1}}) == [("x", "one_of"), ("x.c", "unknown_field")]
    assert problems(whole, {"x": {}}) == [("x", "one_of")]


def test_nulls_that_fit_stay_and_those_that_do_not_are_dropped() -> None:
    """As it is first; only when that does not fit do the nulls of optional fields count as absent."""
    optional = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"a": optional, "b": {"type": "string"}}, "minProperties": 1}
    assert compile_schema(schema).examine({"a": None, "b": None}) == ({"a": None}, [])
    assert problems(schema, {"b": None}) == [("", "min_properties")]
    assert compile_schema(schema).check({"a": 5}) == [Problem("a", "type", "“a”应为文字，收到的是整数")]
    choice = {
        "oneOf": [
            {"type": "object", "properties": {"k": {"type": "null"}}},
            {"type": "object", "properties": {"k": {"type": "string"}}},
        ]
    }
    whole = {"type": "object", "properties": {"x": choice}}
    assert compile_schema(whole).examine({"x": {"k": None}}) == ({"x": {"k": None}}, [])


def test_an_enum_beside_a_list_is_of_its_items() -> None:
    """As function lists write it; an enum of lists is one of lists."""
    days = {"type": "array", "items": {"type": "string"}, "enum": ["monday", "friday"]}
    whole = {"type": "object", "properties": {"x": days}}
    assert problems(whole, {"x": ["monday", "friday"]}) == []
    assert compile_schema(whole).check({"x": ["monday", "fryday"]}) == [
        Problem("x[1]", "enum", "“x[1]”只能是：monday、friday", "是不是“friday”？")
    ]
    pairs = {"type": "object", "properties": {"x": {"type": "array", "enum": [["a"], ["b"]]}}}
    assert problems(pairs, {"x": ["a"]}) == []
    assert problems(pairs, {"x": ["a", "b"]}) == [("x", "enum")]


def test_messages_say_what_fits() -> None:
    """For the person who asked and the model that tries again: the place, what is expected, the word that was meant."""
    schema = {
        "type": "object",
        "properties": {
            "unit": {"enum": ["metric", "imperial", True, None, 2]},
            "start_date": {"type": "string"},
            "size": {"anyOf": [{"type": "integer"}, {"type": "array"}, {"type": "null"}]},
            "count": {"type": ["integer", "null"]},
            "many": {"enum": [f"value {number}" for number in range(50)]},
        },
    }
    checker = compile_schema(schema)
    assert checker.check({"unit": "Metric"}) == [
        Problem("unit", "enum", "“unit”只能是：metric、imperial、true、null、2", "是不是“metric”？")
    ]
    assert checker.check({"unit": 3})[0].suggestion is None
    assert checker.check({"startDate": "x"})[0].suggestion == "是不是“start_date”？"
    assert checker.check({"size": "big"}) == [Problem("size", "any_of", "“size”不符合任何一种写法", "可选：整数、列表")]
    assert checker.check({"count": 2.5}) == [Problem("count", "type", "“count”应为整数或空，收到的是小数")]
    assert checker.check({"many": "other"})[0].message.endswith("value 19……")
