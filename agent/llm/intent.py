"""Which tool a sentence asks for: triggers, then BM25 over the words of names, descriptions and examples, with a margin."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from agent.llm.base import ToolOffer
from memory.segment import Segmenter

_ASKING = frozenset(
    "查 看 看看 查看 查询 查一下 怎么样 怎么 如何 多少 什么 哪些 现在 目前 当前 告诉 知道 今天 明天 需要 情况".split()  # noqa: SIM905
)
_TAKES_A_CLAUSE = frozenset({"提醒我", "叫我"})
"""What follows is what to remind of, whatever it speaks of: 提醒我给张三发消息."""
_K1, _B = 1.2, 0.6
TRIGGER = 3.0
"""What a trigger counts, and one more a character, beside BM25 scores of mostly 1 to 8."""
THRESHOLD = 1.2
MARGIN = 1.25
COVERAGE = 0.5
"""The least share of the sentence's words (by weight) a tool must know when no trigger matched."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One tool's score for a sentence. ``trigger`` is the trigger that matched, if any, and ``at`` where."""

    offer: ToolOffer
    score: float
    coverage: float
    trigger: str | None = None
    at: int = -1


@dataclass(frozen=True, slots=True)
class Intent:
    """The best tool, or two that are too close to tell, or neither."""

    best: ToolOffer | None = None
    rivals: tuple[ToolOffer, ...] = ()
    named: bool = False
    """Whether the sentence names the tool by one of its triggers, not only shares words with it."""


def find_intent(text: str, offers: Sequence[ToolOffer], segmenter: Segmenter) -> Intent:
    """What the sentence asks for; an empty Intent when nothing scores above the threshold."""
    ranked = score(text, offers, segmenter)
    fit = [one for one in ranked if one.score >= THRESHOLD and (one.trigger is not None or one.coverage >= COVERAGE)]
    if not fit:
        return Intent()
    best = fit[0]
    asks = [one for one in fit if one.trigger is not None]
    first = min(asks, key=lambda one: one.at, default=None)
    if first is not None and len(asks) > 1 and first.trigger in _TAKES_A_CLAUSE and _alone_at(first, asks):
        return Intent(first.offer, named=True)
    covering = _covering([one for one in fit if one.trigger is not None])
    if covering is not None:
        return Intent(covering.offer, named=True)
    close = [one for one in fit[1:] if one.score * MARGIN > best.score and (one.trigger or "") not in (best.trigger or "-")]
    if best.trigger is not None:
        close = [one for one in close if one.trigger is not None and len(one.trigger) + 2 > len(best.trigger)]
    else:
        close = [one for one in fit[1:] if one.score * MARGIN > best.score]
    if close:
        return Intent(rivals=(best.offer, close[0].offer))
    return Intent(best.offer, named=best.trigger is not None)


def _alone_at(first: Scored, others: Sequence[Scored]) -> bool:
    return all(first.at < other.at for other in others if other is not first)


def score(text: str, offers: Sequence[ToolOffer], segmenter: Segmenter) -> list[Scored]:
    """Every tool with its score, best first."""
    plain = unicodedata.normalize("NFKC", text).lower()
    query = {word for word in segmenter.words(plain, split=False) if word not in _ASKING and not re.search(r"\d", word)}
    documents = [_document(offer, segmenter) for offer in offers]
    known = Counter(word for document in documents for word in document)
    average = sum(sum(document.values()) for document in documents) / max(1, len(documents))
    weights = {word: math.log(1 + (len(documents) - known[word] + 0.5) / (known[word] + 0.5)) + 0.2 for word in query}
    total = sum(weights.values()) or 1.0
    scored = []
    for offer, document in zip(offers, documents, strict=True):
        length = sum(document.values())
        points = covered = 0.0
        for word in query:
            count = document[word]
            if count:
                covered += weights[word]
                points += weights[word] * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / (average or 1)))
        trigger, at = _trigger(plain, offer.triggers)
        points += TRIGGER + len(trigger) if trigger else 0.0
        scored.append(Scored(offer, points, covered / total, trigger, at))
    return sorted(scored, key=lambda one: (-one.score, one.offer.name))


def _covering(triggered: Sequence[Scored]) -> Scored | None:
    """Of several triggered tools, the one whose own fields speak of what the others are for: a to-do with a time of
    reminder covers 「建一个待办，明天提醒我」."""
    if len(triggered) < 2:
        return None
    for one in triggered:
        fields = " ".join(
            f"{name} {one.offer.labels.get(name, '')} {field.get('title', '')} {field.get('description', '')}"
            for name, field in one.offer.parameters.get("properties", {}).items()
            if isinstance(field, dict)
        )
        others = [other for other in triggered if other is not one]
        if all(any(word in fields for word in _stems(other.trigger or "")) for other in others):
            return one
    return None


def _stems(trigger: str) -> list[str]:
    return [trigger[:2]] if len(trigger) > 2 else [trigger]


def _trigger(plain: str, triggers: Sequence[str]) -> tuple[str | None, int]:
    """The longest trigger found."""
    best: tuple[str | None, int] = (None, -1)
    for trigger in triggers:
        pattern = _trigger_pattern(unicodedata.normalize("NFKC", trigger).lower())
        match = re.search(pattern, plain) if pattern else None
        if match and len(trigger) > len(best[0] or ""):
            best = (trigger, match.start())
    return best


@lru_cache(maxsize=2048)
def _trigger_pattern(trigger: str) -> str:
    """A trigger as a pattern: a space stands for up to 8 characters of the same clause (「建 待办」), and a number or a
    measure word may stand between Chinese characters (待办做完: 待办3做完)."""
    parts = ["[\\d\\s#号第个一]{0,4}".join(re.escape(char) for char in part) for part in trigger.split()]
    return "[^，,。；;:]{0,8}?".join(parts)


def _document(offer: ToolOffer, segmenter: Segmenter) -> Counter[str]:
    """The words of a tool; what says what it is counts twice what merely shows it."""
    fields = offer.parameters.get("properties", {})
    titles = [str(field.get("title", "")) for field in fields.values() if isinstance(field, dict)]
    about = " ".join([offer.name.replace("_", " "), offer.title, offer.description])
    shown = " ".join([*titles, *offer.labels.values(), *offer.examples, *offer.triggers])
    return _counted(segmenter, about, shown)


@lru_cache(maxsize=1024)
def _counted(segmenter: Segmenter, about: str, shown: str) -> Counter[str]:
    counted = Counter({word: 2 * count for word, count in Counter(segmenter.words(about)).items()})
    counted.update(set(segmenter.words(shown)))
    return counted
