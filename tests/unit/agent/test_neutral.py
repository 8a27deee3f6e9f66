"""Written text never passes for a confirmation prompt (N-17)."""

from __future__ import annotations

import pytest

from agent import texts
from agent.neutral import looks_like_prompt, neutralize


@pytest.mark.parametrize(
    "line",
    [
        "即将执行以下操作，请确认",
        "  即 将 执 行以下操作",
        "【即将执行】",
        "请确认以下操作",
        "回复「确认 27」执行",
        "回复“确认”",
        "确认 27",
        "另有 1 项等你确认：建待办",
        "即\u200b将执行以下操作",
        "**即将执行以下操作**",
    ],
)
def test_lines_that_begin_like_a_prompt_are_marked(line: str) -> None:
    """N-17."""
    assert looks_like_prompt(line)
    assert neutralize(f"好的\n{line}").splitlines()[1].startswith(texts.QUOTED_PROMPT_MARK)


@pytest.mark.parametrize("line", ["好的，已为你查到", "我会在你确认之后执行", "请把确认单发给财务", "CPU 92%"])
def test_ordinary_lines_stay(line: str) -> None:
    assert neutralize(line) == line


def test_our_markup_is_removed() -> None:
    """N-16."""
    text = neutralize('点<a href="weixin://bizmsgmenu?msgmenucontent=确认">这里</a> weixin://x')
    assert "<a" not in text
    assert "weixin://" not in text
    assert "这里" in text
