"""Strict reading of a call's arguments."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from tools.arguments import parse_arguments


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a":1,"a":2}', "duplicate_key"),
        ('{"x":{"a":1,"a":2}}', "duplicate_key"),
        ('{"a":NaN}', "not_finite"),
        ('{"a":-Infinity}', "not_finite"),
        ('{"a":1e999}', "not_finite"),
        ("[1]", "not_an_object"),
        ('"x"', "not_an_object"),
        ('{"a":1}}', "bad_json"),
        ('{"a":1} {"b":2}', "bad_json"),
        ("{'a':1}", "bad_json"),
        ('{"a":1,}', "bad_json"),
        ('{"a":"\\ud800"}', "bad_json"),
        ('{"a":' * 40 + "1" + "}" * 40, "too_deep"),
        ("[" * 100_000, "too_large"),
        ("[" * 5000, "too_deep"),
        ('{"a":"' + "x" * 70_000 + '"}', "too_large"),
        ('{"a":' + "9" * 5000 + "}", "too_large"),
        (b'{"a":"\xff"}', "bad_json"),
        ("\u3000{}", "bad_json"),
        ("\ufeff{}", "bad_json"),
        ("null", "not_an_object"),
        ('{"a":01}', "bad_json"),
        ('{"a":"\n"}', "bad_json"),
        ({"a": {1, 2}}, "bad_json"),
        ({"a": float("nan")}, "not_finite"),
        ({1: "a", "1": "b"}, "duplicate_key"),
        ({"\udfff": 1}, "bad_json"),
    ],
)
def test_refused(text: Any, code: str) -> None:
    """Duplicate keys, NaN, depth and size are refused; nothing is repaired."""
    value, problem = parse_arguments(text)
    assert value == {}
    assert problem is not None
    assert problem.code == code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":"[[[[{{{\\"","b":[1,2.5,true,null]}', {"a": '[[[[{{{"', "b": [1, 2.5, True, None]}),
        ("", {}),
        (" {} ", {}),
        ({"a": 1}, {"a": 1}),
        (MappingProxyType({"a": MappingProxyType({"b": (1, 2)})}), {"a": {"b": [1, 2]}}),
        ('{"a":12345678901234567.0,"b":1.5e2}', {"a": 12345678901234567, "b": 150.0}),
        (b'{"a":"\xe4\xb8\xad"}', {"a": "中"}),
    ],
)
def test_accepted(text: Any, value: dict[str, Any]) -> None:
    """Brackets inside strings are no depth; an empty text is no arguments."""
    assert parse_arguments(text) == (value, None)


def test_a_name_in_a_message_hides_nothing() -> None:
    """What the model wrote is shown written out: no line of its own, nothing that turns the text around."""
    problem = parse_arguments('{"a\\n\u202eb":1,"a\\n\u202eb":2}')[1]
    assert problem is not None
    assert problem.message == "参数里“a\\n\\u202eb”出现了两次"
