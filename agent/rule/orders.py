"""Several orders in one message: 建个待办买牛奶；提醒我五点下班, 完成待办1和2."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agent.llm.base import ToolOffer
from agent.rule.intent import find_intent
from agent.rule.slot_schema import properties_of
from agent.rule.slot_text import CONTENT_NAMES
from memory.numbers import INTEGER, parse_number
from memory.segment import Segmenter

_STRONG = r"[;；\n]+\s*|[。!！]\s*(?=\S)|[,，、\s]{0,3}(?:另外|还有|顺便)[,，\s]{0,3}"
_WEAK = r"[,，、\s]{0,3}(?:然后|接着|并且|同时)[,，\s]{0,3}|[,，;；。\s]再(?!说|见|生|次)"
_ANY = re.compile(f"({_STRONG}|{_WEAK})")
_COLON = re.compile(r"(?<![\dA-Za-z])[:：]")
_NUMBERS = re.compile(
    rf"[#第]?(?P<first>{INTEGER})(?:[个条项号])?(?P<more>(?:\s*(?:和|、|,|，|跟|及|还有)\s*(?:待办|提醒)?\s*[#第]?{INTEGER}(?:[个条项号])?)+)"
)
_MOST = 5


@dataclass(frozen=True, slots=True)
class Order:
    """One order of a message: the tool and the words it was given in."""

    offer: ToolOffer
    text: str


def orders_in(text: str, tools: Sequence[ToolOffer], segmenter: Segmenter) -> list[Order]:
    """The orders of a message that holds two or more, each of which names its tool; else an empty list."""
    parts = _ANY.split(text.strip())
    orders: list[Order] = []
    for number in range(0, len(parts), 2):
        part, joint = parts[number], parts[number - 1] if number else ""
        if not part.strip():
            continue
        intent = find_intent(part, tools, segmenter)
        if not intent.named or intent.best is None or (orders and _belongs(orders[-1], joint)):
            return []
        orders.append(Order(intent.best, part))
    return orders if 2 <= len(orders) <= _MOST else []


def _belongs(before: Order, joint: str) -> bool:
    """Whether what follows is the content of the order before: words of a message, what to be reminded of."""
    content = any(name in CONTENT_NAMES for name in before.offer.parameters.get("required", ()))
    if content and _COLON.search(before.text):
        return True
    return content and re.fullmatch(_STRONG, joint) is None


def numbers_in(text: str, offer: ToolOffer) -> list[dict[str, int]]:
    """The calls of a tool that takes one number, for a message that names several: 删除待办1、2和5. Else an empty list."""
    required = list(offer.parameters.get("required", ()))
    if len(required) != 1 or properties_of(offer)[required[0]].get("type") != "integer":
        return []
    match = _NUMBERS.search(unicodedata.normalize("NFKC", text))
    if match is None:
        return []
    found = [parse_number(match["first"]), *map(parse_number, re.findall(INTEGER, match["more"]))]
    numbers = list(dict.fromkeys(one for one in found if isinstance(one, int) and one > 0))
    return [{required[0]: one} for one in numbers] if 2 <= len(numbers) <= _MOST else []
