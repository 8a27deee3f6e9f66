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
from agent.rule.slot_schema import properties_of
from agent.rule.slot_values import is_machine, machine_in
from agent.rule.triggers import POLITE, find_trigger, weight
from memory.segment import Segmenter

_ASKING = frozenset(
    "查 看 看看 查看 查询 查一下 怎么样 怎样 怎么 如何 多少 什么 哪些 现在 目前 当前 告诉 知道 今天 明天 需要 情况".split()  # noqa: SIM905
    + "还 剩 还剩 剩余 是不是 有没有 高不高 好不好 好吗 下 如何 啥 了 过 吧 是否".split()  # noqa: SIM905
)
_TAKES_A_CLAUSE = re.compile("(?:提醒(?:一下)?|叫)我")
"""What follows is what to remind of, whatever it speaks of: 提醒我给张三发消息."""
_TALK = re.compile(r"了|过|[让叫要]我|[吗嘛么呢?]|不(?:想|要|用|需|喜)|是|挺|真|太|很|总")
"""Signs of talk about a thing; without a trigger nobody is taken to order it."""
_TALK_TOO = re.compile(r"不(?:想|要|用|需|喜)|已经|过[你他她]|真|太|挺|[好难]用")
"""Signs that nobody even asks."""
_K1, _B = 1.2, 0.6
TRIGGER = 3.0
"""What a trigger counts, and one more a character, beside BM25 scores of mostly 1 to 8."""
MACHINE = 1.5
"""What a machine's name counts for a tool that looks at machines."""
THRESHOLD = 1.2
MARGIN = 1.25
COVERAGE = 0.5
"""The least share of the sentence's words (by weight) a tool must know when no trigger matched."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One tool's score for a sentence. ``trigger`` is the trigger that matched, if any, and ``span`` where."""

    offer: ToolOffer
    score: float
    coverage: float
    trigger: str | None = None
    span: tuple[int, int] = (-1, -1)
    looks: bool = False
    """Whether it looks at the machine that the sentence names."""
    about: bool = False
    """Whether a word of the sentence says what the tool is, not only what an example of it shows (a name, 会议)."""

    @property
    def at(self) -> int:
        """Where the trigger begins."""
        return self.span[0]


@dataclass(frozen=True, slots=True)
class Intent:
    """The best tool, or two that are too close to tell, or neither."""

    best: ToolOffer | None = None
    rivals: tuple[ToolOffer, ...] = ()
    named: bool = False
    """Whether the sentence names the tool by one of its triggers, not only shares words with it."""


def find_intent(text: str, offers: Sequence[ToolOffer], segmenter: Segmenter) -> Intent:
    """What the sentence asks for; an empty Intent when nothing scores above the threshold."""
    plain = unicodedata.normalize("NFKC", text).lower()
    ranked = score(text, offers, segmenter)
    named = _outermost([one for one in ranked if one.trigger is not None])
    if named:
        return _among_named(plain, named)
    fit = [one for one in ranked if one.score >= THRESHOLD and one.coverage >= COVERAGE]
    fit = [one for one in fit if not (_TALK if one.offer.writes else _TALK_TOO).search(plain)]
    fit = [one for one in fit if one.about or not one.offer.writes]
    if not fit:
        return Intent()
    close = [one for one in fit[1:] if one.score * MARGIN > fit[0].score and one.looks == fit[0].looks]
    return Intent(rivals=(fit[0].offer, close[0].offer)) if close else Intent(fit[0].offer)


def _among_named(plain: str, named: Sequence[Scored]) -> Intent:
    """The tool meant among those the sentence names, best first."""
    first = min(named, key=lambda one: one.at)
    alone = all(first.at < other.at for other in named if other is not first)
    if len(named) > 1 and alone and _takes_the_rest(plain, first, named):
        return Intent(first.offer, named=True)
    covering = _covering(named)
    if covering is not None:
        return Intent(covering.offer, named=True)
    best = named[0]
    close = [
        one for one in named[1:] if one.score * MARGIN > best.score and weight(one.trigger or "") + 2 > weight(best.trigger or "")
    ]
    return Intent(rivals=(best.offer, close[0].offer)) if close else Intent(best.offer, named=True)


def _outermost(named: Sequence[Scored]) -> list[Scored]:
    """Without tools whose trigger is only a part of another's (工单 in 查工单), or begins inside of one (待办 取消 in
    「建待办取消会员」)."""
    return [one for one in named if not any(_swallows(other, one) for other in named if other is not one)]


def _swallows(other: Scored, one: Scored) -> bool:
    more = weight(other.trigger or "") - weight(one.trigger or "")
    if other.span[0] == one.span[0]:
        return more > 0 and one.span[1] <= other.span[1]
    return other.span[0] < one.span[0] < other.span[1] and (more >= 0 or one.span[1] > other.span[1])


def _takes_the_rest(plain: str, first: Scored, named: Sequence[Scored]) -> bool:
    """Whether all that follows the first order is its content: it stands at the very beginning, or a colon follows it."""
    if _TAKES_A_CLAUSE.search(first.trigger or ""):
        return True
    following = min(one.at for one in named if one is not first)
    colon = re.search(r"(?<![\da-z]):", plain[first.span[1] : max(following, first.span[1])])
    return colon is not None or ((first.trigger or "").startswith("^") and _covering(named) is None)


def score(text: str, offers: Sequence[ToolOffer], segmenter: Segmenter) -> list[Scored]:
    """Every tool with its score, best first."""
    plain = unicodedata.normalize("NFKC", text).lower()
    machine = machine_in(plain, [])
    query = {
        word
        for word in segmenter.words(re.sub(f"^{POLITE}", "", plain), split=False)
        if word not in _ASKING and not re.search(r"\d", word)
    }
    query -= {machine[0]} if machine is not None else set()
    documents = [_document(offer, segmenter) for offer in offers]
    known = Counter(word for document in documents for word in document)
    average = sum(sum(document.values()) for document in documents) / max(1, len(documents))
    weights = {word: math.log(1 + (len(documents) - known[word] + 0.5) / (known[word] + 0.5)) + 0.2 for word in query}
    scored = []
    for offer, document in zip(offers, documents, strict=True):
        length = sum(document.values())
        points = covered = 0.0
        for word in query:
            count = document[word]
            if count:
                covered += weights[word]
                points += weights[word] * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / (average or 1)))
        about = any(document[word] > 1 for word in query)
        looks = MACHINE if machine is not None and _looks_at(offer, machine[0], covered) else 0.0
        trigger, span = find_trigger(plain, offer.triggers)
        points += looks + (TRIGGER + weight(trigger) if trigger else 0.0)
        coverage = (covered + looks) / ((sum(weights.values()) + looks) or 1.0)
        scored.append(Scored(offer, points, coverage, trigger, span, looks > 0, about))
    return sorted(scored, key=lambda one: (-one.score, one.offer.name))


def _looks_at(offer: ToolOffer, machine: str, covered: float) -> bool:
    """Whether a tool that changes nothing may be asked about this machine: it knows it, or the words about it."""
    if offer.writes:
        return False
    for name, schema in properties_of(offer).items():
        if is_machine(name) and (covered > 0 or machine in (str(value).lower() for value in schema.get("enum", ()))):
            return True
    return False


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
        if all(_stem(other.trigger or "") in fields for other in others):
            return one
    return None


def _stem(trigger: str) -> str:
    bare = re.sub(r"!.|[\s^$]", "", trigger)
    return bare[:2] if len(bare) > 2 else bare


def _document(offer: ToolOffer, segmenter: Segmenter) -> Counter[str]:
    """The words of a tool; what says what it is counts twice what merely shows it."""
    fields = offer.parameters.get("properties", {})
    titles = [str(field.get("title", "")) for field in fields.values() if isinstance(field, dict)]
    about = " ".join([offer.name.replace("_", " "), offer.title, offer.description])
    shown = " ".join([*titles, *offer.labels.values(), *offer.examples, *(re.sub("!.", "", one) for one in offer.triggers)])
    return _counted(segmenter, about, shown)


@lru_cache(maxsize=1024)
def _counted(segmenter: Segmenter, about: str, shown: str) -> Counter[str]:
    counted = Counter({word: 2 * count for word, count in Counter(segmenter.words(about)).items()})
    counted.update(set(segmenter.words(shown)))
    return counted
