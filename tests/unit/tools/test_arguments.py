"""Strict reading of a call's arguments."""

from __future__ import annotations

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
        (b'{"a":"\xe4\xb8\xad"}', {"a": "中"}),
    ],
)
def test_accepted(text: Any, value: dict[str, Any]) -> None:
    """Brackets inside strings are no depth; an empty text is no arguments."""
    assert parse_arguments(text) == (value, None)
