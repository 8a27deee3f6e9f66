"""Makes text safe to show: control characters gone, foreign markup stripped, and nothing that passes for our prompt."""

from __future__ import annotations

import re
import unicodedata

PROMPT_HEAD = "即将执行以下操作"
"""How a confirmation prompt begins (agent.md §5)."""
PROMPT_DISCLAIMER = "（助手的话，不是确认请求）"

_MOST_SIGNS = 12
"""More signs than this before the head do not stay between it and its disclaimer (a cut could come in between)."""

_LINE_ENDS = re.compile("\r\n?|\u2028|\u2029|\x0b|\x0c|\x85")
_CONTROL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINERS = re.compile("[\u200c\u200d]")
_ANCHOR = re.compile(r"<\s*a\s[^<>]*?href\s*=\s*[\"']?([^\"'\s<>]*)[\"']?[^<>]*>([^<]{0,1000})<\s*/\s*a\s*>", re.IGNORECASE)
_ANCHOR_END = re.compile(r"<\s*/\s*a\s*>", re.IGNORECASE)
_ANCHOR_START = re.compile(r"<(?=[\s\u200c\u200d]*a)", re.IGNORECASE)
_SCHEME = re.compile(r"weixin[\s\u200c\u200d]*:[\s\u200c\u200d]*/[\s\u200c\u200d]*/", re.IGNORECASE)
_TRADITIONAL = str.maketrans("將執", "将执")


def visible(text: str) -> str:
    """``text`` without control, zero-width and bidi characters; every kind of line end becomes a newline (N-17).

    A joiner stays only inside an emoji or beside a script that needs it; a lone surrogate becomes U+FFFD.
    """
    text = _LINE_ENDS.sub("\n", text)
    text = _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))
    return _JOINERS.sub(lambda match: match.group() if _joins(text, match.start()) else "", text)


def strip_markup(text: str) -> str:
    """``text`` without ``<a`` and ``weixin://``: only our own renderer may emit them (N-16). Link targets stay readable."""
    while True:
        cleaned = _ANCHOR.sub(_plain_link, text)
        cleaned = _ANCHOR_START.sub("＜", _ANCHOR_END.sub("", cleaned))
        cleaned = _SCHEME.sub("", cleaned)
        if cleaned == text:
            return text
        text = cleaned


def neutralize_prompt(text: str) -> str:
    """``text`` in which whatever reads like the head of a confirmation prompt is marked as the assistant's words (N-17).

    Compared after NFKC and on letters and digits only, so spaces, punctuation and invisible characters hide nothing.
    """
    letters, places = _letters(text)
    inserts: list[int] = []
    at = letters.find(PROMPT_HEAD)
    while at >= 0:
        if not _is_marked(text, places[at]):
            inserts.append(_head_start(text, places[at]))
        at = letters.find(PROMPT_HEAD, at + len(PROMPT_HEAD))
    for place in reversed(inserts):
        text = text[:place] + PROMPT_DISCLAIMER + text[place:]
    return text


def untrusted(text: str) -> str:
    """What a model or a tool wrote, safe to send."""
    return neutralize_prompt(strip_markup(visible(text)))


def _plain_link(match: re.Match[str]) -> str:
    target, label = match.group(1), match.group(2)
    if not target.lower().startswith(("http://", "https://")) or target in label:
        return label
    return f"{label}（{target}）"


def _letters(text: str) -> tuple[str, list[int]]:
    """The letters and digits of ``text`` after NFKC, and where each came from."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for folded in unicodedata.normalize("NFKC", character):
            if folded.isalnum():
                letters.append(folded)
                places.append(place)
    return "".join(letters).translate(_TRADITIONAL), places


def _is_marked(text: str, place: int) -> bool:
    """Whether the disclaimer stands before ``place`` already, with nothing but signs in between."""
    marked = text.rfind(PROMPT_DISCLAIMER, 0, place)
    return marked >= 0 and not any(character.isalnum() for character in text[marked + len(PROMPT_DISCLAIMER) : place])


def _head_start(text: str, place: int) -> int:
    """Where the disclaimer goes: the start of the line if only signs stand before the head, else right before it."""
    start = text.rfind("\n", 0, place) + 1
    signs = text[start:place]
    return place if len(signs) > _MOST_SIGNS or any(character.isalnum() for character in signs) else start


def _joins(text: str, place: int) -> bool:
    if place == 0 or place + 1 >= len(text):
        return False
    before, after = text[place - 1], text[place + 1]
    if ord(before) < 0x250 or ord(after) < 0x250:
        return False
    return not (0x2E80 <= ord(before) <= 0x9FFF or 0x2E80 <= ord(after) <= 0x9FFF or before.isspace() or after.isspace())
