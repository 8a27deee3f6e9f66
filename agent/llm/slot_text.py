"""Reads the free texts of a call out of a sentence: who, what is quoted, what follows a colon, what is left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.llm.base import ToolOffer
from agent.llm.slot_schema import is_time, label
from agent.llm.slot_values import Filled, take

_FILLER = re.compile(
    r"^(?:请|麻烦|劳驾|能不能|可以|可不可以|能否|能(?=帮|给|替)|帮我|帮忙|给我|替我|我想|我要|你|再|先|把|将|来|记得|记一下|，|,|。|、|:|：|\s)+"
    r"|(?:，|,|。|、|;|；|！|!|？|\?|\s|吧|呢|啊|一下)+$"
)
_MAKE = re.compile(
    r"(?:新?建立?|创建|添加|新增|增加|加|设|设置|定|记|发|写|开|提交?|做成?|弄)(?:成|为|上)?(?:一?[个条项份张则]|个|一下)?(?:的)?"
)
_QUOTED = re.compile(r"[「『“\"《]([^」』”\"》]{1,500})[」』”\"》]")
_PERSON_NAMES = frozenset({"to", "recipient", "receiver", "assignee", "user", "person"})
CONTENT_NAMES = frozenset({"text", "content", "message", "body"})
"""Parameters that may be any words at all."""
_SEARCH_NAMES = frozenset({"keyword", "query", "keywords", "search"})
_PERSON = re.compile(
    r"(?:转告|告诉|通知|发给|给|@)(?P<value>[A-Za-z][A-Za-z0-9_.-]{1,31}|(?![我你他她它])[\u4e00-\u9fff]{2,4}?)"
    r"(?:发(?:一?[个条])?(?:消息|信息|微信)(?:说|讲)?|说(?:一声|一下)?|(?:发|一下|一声)?(?=[:,，。\s]|$|明|后|今|下|会|我))"
)
_NOBODY = frozenset({"同事", "别人", "他", "她", "人", "谁", "某人", "对方"})
"""Words in a person's place that name nobody."""
_SEARCHED = re.compile(r"(?:包含|含有|关键字是?|搜索?一?下?|里面?的|有没有)\s*(?P<value>[^\s，,。的?？]{1,100})")
_AFTER_COLON = re.compile(r"(?<!\d)[::]\s*(.+)$", re.DOTALL)
_ASKED = re.compile(r"^(?:请问)?(?:你)?(?:能|可以|可不可以|可否|麻烦)")
_EMPTY_WORDS = re.compile(
    rf"别忘了?|千万|都|(?:之?前|以?内)?(?:要|得|必须)?(?:完成|搞定|做完|做好|提交|交|弄完)?|{_MAKE.pattern}|每|的"
)


def read_texts(plain: str, offer: ToolOffer, properties: Mapping[str, Mapping[str, Any]], filled: Filled) -> None:
    """The free texts of a call: who it goes to, what is quoted, what follows a colon, else what is left of the sentence."""
    if _ASKED.match(plain):
        plain = re.sub(r"[吗嘛么](?=[?？。\s]*$)", " ", plain)  # 可以明天提醒我开会吗: asked for, not about
    free = [
        name
        for name, schema in properties.items()
        if schema.get("type", "string") == "string"
        and not {"enum", "pattern", "format", "const"} & set(schema)
        and name not in filled.values
        and not is_time(name, schema)
        and not re.search(r"host|server|machine|device|(?:^|_)id$", name)
    ]
    for name in [one for one in free if one in _PERSON_NAMES]:
        who = _group(_PERSON, plain)
        take(filled, name, None if who is None or who[0] in _NOBODY else who)
    for name in [one for one in free if one in _SEARCH_NAMES]:
        take(filled, name, _group(_SEARCHED, plain))
    open_names = [name for name in free if name in offer.parameters.get("required", ()) and name not in filled.values]
    open_names = [name for name in open_names if name not in _PERSON_NAMES]
    content = next((name for name in open_names if name in CONTENT_NAMES), None)
    title = next((name for name in open_names if name != content), None)
    quoted = _QUOTED.search(plain)
    if quoted and (title or content):
        _put(filled, properties, title or content or "", quoted[1])
    if content is not None and content not in filled.values:
        after = _AFTER_COLON.search(plain)
        text = after[1] if after and (title is None or title in filled.values) else ""
        if title is None or title in filled.values:
            said = [label(name, schema) for name, schema in properties.items() if name in filled.values]
            rest = _rest(plain, filled.spans, (*offer.triggers, offer.title), said) if not quoted else ""
            _put(filled, properties, content, text or rest)
    elif title is not None and title not in filled.values:
        said = [label(name, schema) for name, schema in properties.items() if name in filled.values]
        _put(filled, properties, title, _rest(plain, filled.spans, (*offer.triggers, offer.title), said))


def _group(pattern: re.Pattern[str], plain: str) -> tuple[str, tuple[int, int]] | None:
    match = pattern.search(plain)
    return None if match is None else (match["value"], match.span())


def _put(filled: Filled, properties: Mapping[str, Mapping[str, Any]], name: str, text: str) -> None:
    text = text.strip()
    if text:
        filled.values[name] = text[: int(properties[name].get("maxLength", 500))]


def _rest(plain: str, spans: Sequence[tuple[int, int]], triggers: Sequence[str], labels: Sequence[str]) -> str:
    """The sentence without times and what only says what to do: 把web-01的内存告警建一个待办，明天提醒我 → web-01的内存告警."""
    kept = list(plain)
    for start, end in spans:
        kept[start:end] = ["\0"] * (end - start)
    text = "".join(kept)
    named = "|".join(re.escape(one) for one in labels if one)
    if named:
        text = re.sub(rf"\0+(?:{named})?的?|(?:{named})(?:是|为|:)?\0+", "\0", text)
    nouns = "|".join(sorted({re.escape(part) for trigger in triggers for part in trigger.split()}, key=len, reverse=True))
    if nouns:
        text = re.sub(rf"{_MAKE.pattern}\0*(?:{nouns})", "\0", text)
        text = re.sub(nouns, "\0", text)
    text = re.sub(r"(?:到时候?|届时|记得)?(?:提醒|通知|叫)(?:一下)?我?", "\0", text)
    pieces = [_bare(piece) for piece in re.split(r"[\0，,。；;！!\n]+", text)]
    return " ".join(piece for piece in pieces if len(piece) > 1)


def _bare(text: str) -> str:
    before = ""
    while text != before:
        before = text
        text = _FILLER.sub("", text.strip())
    text = re.sub(r"^(?:的|要|去|在|之?前|内)(?=.)|(?:的|要|在)$", "", text)
    return "" if _EMPTY_WORDS.fullmatch(text) else text


def unquote(text: str) -> str:
    """The text without the quotation marks around it."""
    match = _QUOTED.fullmatch(text)
    return match[1] if match else text
