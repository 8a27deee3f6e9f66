"""Triggers: the phrases by which a sentence names a tool, as a small pattern language, and where one stands."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

POLITE = (
    r"(?:请问?(?!假|柬|教|示|求|帖|款)|麻烦|劳驾|拜托|能不能|可不可以|能否|可否|可以|能(?=帮|给|替)|帮忙|帮(?=我|忙)我?|[给替](?:我|咱)(?:们)?"
    r"|我想要?|我要|我还要|你(?!们|好)|您|快(?!递|照|报)|先(?!进|生|锋|例)|再(?!生|见|版|婚)|那(?!些|个)|就|现在|顺便|另外|还有|然后|同时|接着|嗯|哦|好的?(?=[,\s])|[,\s])*"
)
"""What may stand before an order without changing it."""
_POLITE = re.compile(POLITE)
_BETWEEN = r"[\d\s#号第个条项件一二三四五六七八九十两]{0,5}"
_GAP = r"(?:(?![好完过了]|(?<=[建加设删记提开])的)(?:[^，,。;；:：]{1,8}?|\s*[a-z0-9_.@-]{1,32}\s*))??"
_NOUNS = {"待办": r"(?:待办(?:事项|任务)?|代办(?:事项)?|to[\s-]?dos?)"}
"""Words with other spellings."""


@lru_cache(maxsize=4096)
def trigger_pattern(trigger: str) -> re.Pattern[str]:
    """A trigger as a pattern over NFKC lower-case text.

    A space stands for up to 8 characters of the same clause or one word of Latin letters (「建 待办」, 「给 发消息」), but for no
    sign that it was done already (建好待办了); a number or a measure word may stand between
    Chinese characters (待办做完: 待办3做完). ``^`` at the beginning: only polite words may stand before it; ``$`` at the
    end: the message ends there; ``!我``: these must not follow here (each ``!`` one character).
    """
    plain = unicodedata.normalize("NFKC", trigger).lower().strip()
    end = r"[\s。.!~吧啊呀呢吗?]*$" if plain.endswith("$") else ""
    parts = []
    for part in plain.removeprefix("^").removesuffix("$").split():
        bans = "".join(rf"(?!{re.escape(char)})" for char in re.findall("!(.)", part))
        parts.append(f"({_spaced(re.sub('!.', '', part))})" + bans)
    return re.compile(f"(?P<named>{_GAP.join(parts)}){end}")


def search_trigger(trigger: str, plain: str) -> re.Match[str] | None:
    """Where a trigger stands in an NFKC lower-case text; its first group is the whole of it, each further one a word."""
    if trigger.startswith("^"):
        polite = _POLITE.match(plain)
        return trigger_pattern(trigger).match(plain, polite.end() if polite is not None else 0)
    return trigger_pattern(trigger).search(plain)


def find_trigger(plain: str, triggers: Sequence[str]) -> tuple[str | None, tuple[int, int]]:
    """The trigger that takes up most of the text, and where it stands."""
    best: tuple[str | None, tuple[int, int]] = (None, (-1, -1))
    for trigger in triggers:
        match = search_trigger(trigger, plain)
        if match and weight(trigger) > (weight(best[0]) if best[0] else 0):
            best = (trigger, match.span("named"))
    return best


def weight(trigger: str) -> int:
    """How many characters a trigger names."""
    return len(re.sub(r"!.|[\s^$]", "", trigger))


def _spaced(word: str) -> str:
    for noun, spellings in _NOUNS.items():
        if noun in word:
            before, after = word.split(noun, 1)
            return _BETWEEN.join(piece for piece in (_spaced(before), spellings, _spaced(after)) if piece)
    return _BETWEEN.join(map(re.escape, word))
