"""Official Account menus: limits and the way back from a menu made on the website."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.mp.menu import fixed_replies, from_selfmenu, problems

_GOOD = {
    "button": [
        {"type": "click", "name": "帮助", "key": "help"},
        {
            "name": "更多",
            "sub_button": [
                {"type": "view", "name": "官网", "url": "https://e.com"},
                {"type": "scancode_waitmsg", "name": "扫码", "key": "scan"},
            ],
        },
    ]
}


def test_a_good_menu() -> None:
    assert problems(_GOOD) == []


@pytest.mark.parametrize(
    ("menu", "problem"),
    [
        ({}, "button: expected 1 to 3 buttons"),
        ({"button": [{"type": "click", "name": "x", "key": "k"}] * 4}, "button: expected 1 to 3 buttons"),
        ({"button": [{"type": "click", "name": "六个汉字的名", "key": "k"}]}, "button/0/name: 18 bytes, at most 16"),
        ({"button": [{"type": "click", "name": "x"}]}, "button/0/key: missing"),
        ({"button": [{"type": "view", "name": "x", "url": "h" * 1025}]}, "button/0/url: 1025 bytes, at most 1024"),
        ({"button": [{"type": "nope", "name": "x"}]}, "button/0/type: unknown type nope"),
        ({"button": ["x"]}, "button/0: expected an object"),
        (
            {"button": [{"name": "x", "sub_button": [{"type": "click", "name": "y", "key": "k"}] * 6}]},
            "button/0/sub_button: expected 1 to 5 buttons",
        ),
    ],
)
def test_what_the_platform_would_refuse(menu: dict[str, Any], problem: str) -> None:
    assert problems(menu) == [problem]


def test_a_menu_from_the_website_can_be_published() -> None:
    info = {
        "is_menu_open": 1,
        "selfmenu_info": {
            "button": [
                {"name": "button", "sub_button": {"list": [{"type": "view", "name": "看", "url": "http://e.com"}]}},
                {"type": "text", "name": "联系", "value": "电话 123"},
                {"type": "click", "name": "点", "key": "k"},
            ]
        },
    }
    menu = from_selfmenu(info)
    assert menu == {
        "button": [
            {"name": "button", "sub_button": [{"type": "view", "name": "看", "url": "http://e.com"}]},
            {"type": "click", "name": "联系", "key": "text:联系"},
            {"type": "click", "name": "点", "key": "k"},
        ]
    }
    assert problems(menu) == []
    assert fixed_replies(info) == {"text:联系": "电话 123"}
