"""Reads the free texts of a call out of a sentence: who, what is quoted, what follows a colon, what is left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.llm.base import ToolOffer
from agent.rule.slot_schema import is_time, label, properties_of
from agent.rule.slot_values import Filled, take
from agent.rule.triggers import POLITE, find_trigger, search_trigger

_HEAD = re.compile(rf"^(?:{POLITE}(?:我?想|我要|来(?!访|电|宾|源|信|年|料|稿|历)|记得|记一下|[、:。]|\s))+|^{POLITE}")
_LEFT_OVER = re.compile(
    r"^(?:的(?:人|同事|同学)?|(?:内容|标题|主题|事项)[是为叫]|一[声下句]|说(?![明法辞服])|要(?![求闻点是害素])|一?[个条项](?!人|案|目|体|性|件|款)|里(?!程|面)|中(?=查))(?=.)"
)
_TAIL = re.compile(
    r"(?:[,，。、;；！!？?~\s]|(?<![网酒水])吧|[呢啊哈]|一下|谢谢你?|(?<![是目标的])的|(?<![纪摘重需主只])要|(?<![存现实])在)+$"
)
_MAKE = re.compile(
    r"(?:新?建立?|创建|添加|新增|增加|加|设[置定]?|定|记|发|写|开|提交?|做成?|弄)(?:成|为|上)?(?:[一两几]?[个条项份张则篇]|个|一下)?(?:的)?"
)
_QUOTED = re.compile(r"[「『“\"《]([^」』”\"》]{1,2000})[」』”\"》]")
_PERSON_NAMES = frozenset({"to", "recipient", "receiver", "assignee", "user", "person"})
CONTENT_NAMES = frozenset({"text", "content", "message", "body"})
"""Parameters that may be any words at all."""
_SEARCH_NAMES = frozenset({"keyword", "query", "keywords", "search"})
_NAME = r"[A-Za-z][A-Za-z0-9_.-]{1,31}|(?![我你他她它])[\u4e00-\u9fff]{2,4}?"
_SAID = (
    r"发(?:一?[个条])?(?:消息|信息|微信|通知|短信)(?:说|讲)?|留(?:个|一?条)?言|[带捎](?:个|句)话|[说讲](?:一?声|一下|一?句)?"
    r"|(?:发|一下|一声)?(?=[:,，。\s]|$|[和跟明后今昨下上会我你他她您这那把请让帮的要来去在不别没有快尽马已文项客周星早晚中收还0-9]"
    r"|[一二三四五六七八九十]点)"
)
"""What stands between a name and what is said: 说, 发消息, or nothing where a clause begins."""
_PERSON = re.compile(
    rf"(?:转告|转达|告诉|通知|提醒|发消息给|发个消息给|发条消息给|发给|给|跟|和|@)\s*(?P<value>{_NAME})\s*(?:{_SAID})"
)
_SOMEBODY = re.compile(
    rf"(?:转告|转达|告诉|通知|给|跟)\s*(?P<value>[他她]们?|大家|对方|别人|同事|所有人)\s*(?:{_SAID}|(?=[\u4e00-\u9fff]))"
)
_PEOPLE = re.compile(
    r"(?:转告|转达|告诉|通知|发给|给|跟|和)\s*[\u4e00-\u9fff]{2,3}\s*(?:和|、|以及|跟)\s*(?![我你他她它])[\u4e00-\u9fff]{2,3}?"
    rf"\s*(?:{_SAID})"
)
_REMINDS = re.compile(rf"{POLITE}提醒(?!一下我|我)")
_NOBODY = frozenset({"同事", "别人", "他", "她", "人", "谁", "某人", "对方", "大家", "群里", "所有人"})
"""Words in a person's place that name nobody."""
_SEARCHED = (
    re.compile(r"(?:包含|含有|关键字是?|里面?的|中的|有没有)\s*(?P<value>[^\s，,。的?？]{1,100})"),
    re.compile(r"搜索?(?:一下)?\s*(?P<value>[^\s，,。的?？]{1,100})"),
)
_COLON = re.compile(r"(?<![\dA-Za-z])[::]\s*|(?<=[A-Za-z])[::](?!//)\s*")
_KEPT_BETWEEN = ("，", ",", "；", ";")
_HEAD_CHARS = 14
"""So far behind the order its colon may stand."""
_ASKED = re.compile(r"^(?:请问)?(?:你)?(?:能|可以|可不可以|可否|麻烦)")
_EMPTY_WORDS = re.compile(
    rf"别忘了?|千万|都|(?:之?前|以?内)?(?:要|得|必须)?(?:完成|搞定|做[完好]|提交|交|弄[完好]|办[完好]|处理[完好掉]?|解决掉?)?|{_MAKE.pattern}|每|的|里|中|上|到|[一两几]?[个条项份张则篇]"
)
_REMIND = re.compile(
    r"(?:到时候?|届时|记得)?(?:提醒|叫|通知)(?:一下)?我(?:一下)?|(?<=[\x00\x01])(?:提醒|叫)(?=[,，。\s]|$)|提醒(?=\0)"
)
_LOOK = re.compile(rf"(?:^|(?<=[\x00\x01])){POLITE}(?:查|看|搜|找|读|翻)(?:一下|一查|一看|查|看|下|找)?")
_THANKS = re.compile(r"[,，。!！~\s]{0,4}(?:谢谢|多谢|拜托|辛苦|麻烦)(?:你|您|啦|了)*[。!！~\s]*$")
_TIMED = re.compile(r"(?:截止(?:时间|日期|到)?|到期)?(?:[是为到在]|:|：)?\0+(?:的?时候|之前|以前|前|以内|之内|内|截止)?")


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a person said: ``plain`` in NFKC form, ``typed`` as it was, character for character at the same place."""

    plain: str
    typed: str

    def without(self, spans: Sequence[tuple[int, int]], mark: str = "\0") -> Sentence:
        """The sentence with these parts blanked by ``mark``."""
        return Sentence(_blanked(self.plain, spans, mark), _blanked(self.typed, spans, mark))


def read_texts(said: Sentence, offer: ToolOffer, properties: Mapping[str, Mapping[str, Any]], filled: Filled) -> None:
    """The free texts of a call: who it goes to, what is quoted, what follows a colon, else what is left of the sentence. Every
    one as it was typed."""
    if _ASKED.match(said.plain):  # 可以明天提醒我开会吗: asked for, not about
        said = said.without([match.span() for match in re.finditer(r"[吗嘛么](?=[?？。\s]*$)", said.plain)], " ")
    free = [name for name in free_names(properties) if name not in filled.values]
    told_to = None
    for name in [one for one in free if one in _PERSON_NAMES]:
        who = _group(_PERSON, said)
        told_to = _group(_SOMEBODY, said) if who is None or who[0] in _NOBODY else who
        take(filled, name, None if told_to is not who else who)
    for name in [one for one in free if one in _SEARCH_NAMES]:
        take(filled, name, next((found for one in _SEARCHED if (found := _group(one, said)) is not None), None))
    for name in [one for one in free if one not in filled.values]:
        _take_labelled(said, name, properties[name], filled)
    required = offer.parameters.get("required", ())
    open_names = [name for name in free if name in required and name not in filled.values and name not in _PERSON_NAMES]
    content = next((name for name in open_names if name in CONTENT_NAMES), None)
    title = next((name for name in open_names if name != content), None)
    if title is None and content is None:
        return
    if title is None and told_to is not None and (words := said.typed[told_to[1][1] :].strip(" \t\r\n:：,，")):
        _put(filled, content or "", unquote(words))  # what is told to somebody is told word for word
        return
    quoted = _QUOTED.search(said.typed)
    colon = _order_colon(said, offer)
    if quoted and (colon is None or quoted.start() < colon or (title is not None and content is not None)):
        _put(filled, title or content or "", quoted[1])
        if title is not None and content is not None:
            _put(filled, content, _after_colon(said, quoted.end(), filled.spans))
        return
    labels = [label(name, schema) for name, schema in properties.items() if name in filled.values]
    _put(filled, title or content or "", _rest(said, filled.spans, offer, labels))


def names_several(text: str, offer: ToolOffer) -> bool:
    """Whether a sentence gives several people where the tool takes one: 发消息给张三和李四."""
    return bool(_PERSON_NAMES & set(properties_of(offer))) and _PEOPLE.search(text) is not None


def reminds_another(text: str) -> str | None:
    """Whom a sentence wants reminded instead of the one who says it (提醒张三明天交周报), or None."""
    match = _PERSON.search(text) if _REMINDS.match(text) else None
    return match["value"] if match is not None else None


def free_names(properties: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The parameters that hold words of the person's own."""
    return [
        name
        for name, schema in properties.items()
        if schema.get("type", "string") == "string"
        and not {"enum", "pattern", "format", "const"} & set(schema)
        and not is_time(name, schema)
        and not re.search(r"host|server|machine|device|(?:^|_)id$", name)
    ]


def called(name: str, schema: Mapping[str, Any]) -> str:
    """A pattern for what people call a parameter: its label, or a word of its description."""
    described = re.findall(r"[\u4e00-\u9fff]{2,4}", re.sub("[和或的、]", " ", str(schema.get("description", ""))))
    words = {label(name, schema), *described}
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


def _take_labelled(said: Sentence, name: str, schema: Mapping[str, Any], filled: Filled) -> None:
    """A text the sentence calls by its name: 理由是新员工入职, 内容：周一张三."""
    match = re.search(
        rf"(?:^|(?<=[,，;；。\s]))(?:{called(name, schema)})(?:[是为叫]?:|[是为叫])\s*(?P<value>\S.*)$", said.plain, re.DOTALL
    )
    if match is None or re.match("什么|啥|哪", match["value"]):
        return
    end = min([match.end(), *(start for start, _ in filled.spans if start > match.start("value"))])
    value = unquote(said.typed[match.start("value") : end].strip(" ,，。;；"))
    take(filled, name, (value, (match.start(), end)) if value else None)


def _group(pattern: re.Pattern[str], said: Sentence) -> tuple[str, tuple[int, int]] | None:
    match = pattern.search(said.plain)
    return None if match is None else (said.typed[match.start("value") : match.end("value")], match.span())


def _put(filled: Filled, name: str, text: str) -> None:
    text = text.strip()
    if text:
        filled.values[name] = text


def _after_colon(said: Sentence, start: int, spans: Sequence[tuple[int, int]]) -> str:
    colon = _COLON.search(said.plain, start)
    return without_times(said.without(spans).typed[colon.end() :]) if colon else ""


def _blanked(text: str, spans: Sequence[tuple[int, int]], mark: str) -> str:
    kept = list(text)
    for start, end in spans:
        kept[start:end] = [mark] * (end - start)
    return "".join(kept)


def _rest(said: Sentence, spans: Sequence[tuple[int, int]], offer: ToolOffer, labels: Sequence[str]) -> str:
    """The sentence without times (\\0) and what only says what to do (\\1): 把web-01的内存告警建一个待办，明天提醒我 →
    web-01的内存告警. What follows the order's colon is taken as it is, but for its times.
    """
    colon = _order_colon(said, offer)
    if colon is not None:
        return unquote(without_times(said.without(spans).typed[colon:]))
    trigger, span = find_trigger(said.plain.lower(), _triggers(offer))
    words = _word_spans(said.plain, trigger) if trigger else []
    taken = re.match(rf"{POLITE}([把将])[^,，。;；]*$", said.plain[: span[0]]) if trigger else None
    words += [taken.span(1)] if taken is not None else []  # 把 belongs to the order, not to what is ordered
    text = said.without(spans).without(words, "\1").typed
    named = "|".join(re.escape(one) for one in labels if one)
    if named:
        text = re.sub(rf"\0+(?:{named})?的?|(?:{named})(?:是|为|:|：)?\0+", "\0", text)
    text = re.sub(rf"{_MAKE.pattern}(?=\x01)", "\1", text)
    text = _REMIND.sub("\1", text, count=1)
    text = _TIMED.sub("\0", text)
    text = text if offer.writes else _LOOK.sub("", text)
    return _joined(_THANKS.sub("", text))


def _triggers(offer: ToolOffer) -> list[str]:
    return [*offer.triggers, *([offer.title] if offer.title else [])]


def _order_colon(said: Sentence, offer: ToolOffer) -> int | None:
    """Where the content begins that a colon sets apart from the order (建个待办：…); None when none does."""
    end = max(find_trigger(said.plain.lower(), _triggers(offer))[1][1], 0)
    colon = _COLON.search(said.plain, end)
    if colon is None or colon.start() - end > _HEAD_CHARS or not said.plain[colon.end() :].strip():
        return None
    return colon.end()


def _joined(text: str) -> str:
    """What is left between the blanks, with its own punctuation where nothing was taken out."""
    pieces = re.split(r"([\x00\x01，,。；;！!\n]+)", text)
    kept = ""
    for number in range(0, len(pieces), 2):
        piece = _bare(pieces[number])
        if len(piece) > 1 or (piece and len(pieces) == 1):
            between = pieces[number - 1] if number else ""
            kept += ("" if not kept or not between.strip("\0") else between if between in _KEPT_BETWEEN else " ") + piece
    return kept


def _word_spans(plain: str, trigger: str) -> list[tuple[int, int]]:
    """Where the words of a trigger stand, without what stands between them."""
    match = search_trigger(trigger, plain.lower())
    if match is None:
        return []
    return [match.span(number) for number in range(2, len(match.groups()) + 1)]


def without_times(text: str) -> str:
    """Words as they were typed, without the times that were read from them (\\0) and what belongs to those."""
    pieces = re.split(r"([,，;；\n])", _THANKS.sub("", text))
    kept = ""
    for number in range(0, len(pieces), 2):
        piece = pieces[number]
        timed = "\0" in piece
        piece = _TIMED.sub("", _REMIND.sub("", piece, count=1) if timed else piece)
        if timed and _EMPTY_WORDS.fullmatch(piece.strip()):
            piece = ""
        if piece.strip():
            kept += (pieces[number - 1] if kept and number else "") + piece
    return kept.strip(" \t\r\n,，;；")


def _bare(text: str) -> str:
    before = ""
    while text != before:
        before = text
        text = _TAIL.sub("", _HEAD.sub("", text.strip()))
    text = _LEFT_OVER.sub("", text)
    return "" if _EMPTY_WORDS.fullmatch(text) else text


def unquote(text: str) -> str:
    """The text without the quotation marks around it."""
    match = _QUOTED.fullmatch(text)
    return match[1] if match else text
