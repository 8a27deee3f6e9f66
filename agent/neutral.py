"""Keeps written text from passing for a confirmation prompt of ours (N-17)."""

from __future__ import annotations

import re
import unicodedata

from agent import texts

_MARKUP = re.compile(r"</?a\b[^>]*>|weixin://\S*", re.IGNORECASE)
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]")
_LIKE_PROMPT = re.compile(
    r"^[\W_]*(?:即将执行|请确认(?:以下|执行|操作)?|待确认|确认单|另有\d+项等你确认|操作确认|回复[「“\"']?(?:确认|取消|执行)|"
    r"(?:确认|取消)\d+|已执行|已过期没有执行)",
)


def neutralize(text: str) -> str:
    """The text with links and WeChat markup removed, and every line that begins like our prompts marked as quoted."""
    clean = _INVISIBLE.sub("", _MARKUP.sub("", text))
    return "\n".join(texts.QUOTED_PROMPT_MARK + line if looks_like_prompt(line) else line for line in clean.splitlines())


def looks_like_prompt(line: str) -> bool:
    """Whether a line begins like a confirmation prompt, whatever spacing or full-width form it hides behind."""
    bare = re.sub(r"\s+", "", unicodedata.normalize("NFKC", _INVISIBLE.sub("", line)))
    return _LIKE_PROMPT.match(bare) is not None
