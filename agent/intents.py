"""Reads whether a whole message confirms, rejects or edits a pending action; anything but an explicit word is nothing.

The reader sees only words, never what is open; ``tools.confirm`` decides what a decision may do (N-15, N-16).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agent.changes import read_change
from agent.folding import OUTER, as_typed, fold, simplified
from agent.yes_no import ACTS, Kind, read_answer, with_emoji

_MAX_CHARS = 200


@dataclass(frozen=True, slots=True)
class Decision:
    """What a message says about pending actions.

    ``strength``: strong words name the act (确认, 取消); weak ones only agree (好的, 不用). ``number`` is the action's (27),
    ``code`` a 4-digit code, ``all`` every open action, ``edit_text`` what to change, as typed.
    """

    kind: Literal["confirm", "reject", "edit"]
    number: int | None = None
    code: str | None = None
    strength: Literal["strong", "weak"] = "strong"
    all: bool = False
    edit_text: str | None = None


_MENTION = re.compile(r"^@[^\s@]{1,40}\s+")
_UNSURE = re.compile(r"[?？]|[吗么嘛]$|\.\.|。。|…")
"""A question, or a voice trailing off (「嗯……」)."""

_BESIDE_NUMBER: dict[Kind, tuple[str, ...]] = {
    "confirm": (*ACTS["confirm"], "同意", "批准"),
    "reject": (*ACTS["reject"], "不同意", "放弃"),
}
_NUMBER = r"(?:(?:编号|#)?\s*(?P<number>\d{1,6})|第\s*(?P<nth>\d{1,6})\s*(?:项|条|个)?)"  # 2 项 is how many, 第 2 项 is which
_CODE_WORD = r"(?:验证码|确认码|码|code)\s*:?\s*"
_CODE = rf"(?:[\s,、(]*{_CODE_WORD}|[\s,、(]+#?\s*)(?P<code>\d{{4}})\)?"
_EVERY = r"(?:全部都?|全都|全|都|所有的?都?|统统|通通|一律)"
_EVERY_ACT: dict[Kind, re.Pattern[str]] = {
    "confirm": re.compile(
        rf"{_EVERY}(?:确认|执行)吧?|(?:全部|统统|一律)(?:同意|批准)|(?:确认|同意|批准|执行)(?:全部|所有)(?:操作)?|(?:confirm|approve)all"
    ),
    "reject": re.compile(
        rf"把?{_EVERY}(?:取消|驳回|不执行)掉?吧?|(?:全部|统统|通通|一律)(?:拒绝|放弃|作废)吧?"
        r"|(?:取消|拒绝|驳回)(?:全部|所有)的?(?:操作|待确认|待确认的?操作)?|(?:cancel|reject)all"
    ),
}
"""Every open action, named with the act. Not 都同意 or 都拒绝 (they all did), 都不要 (none of these)."""


def _numbered(verbs: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    verb = "(?:" + "|".join(map(re.escape, sorted(verbs, key=len, reverse=True))) + ")"
    return (
        re.compile(rf"{verb}\s*:?\s*{_NUMBER}(?:{_CODE})?"),
        re.compile(rf"{_NUMBER}\s*{verb}(?:{_CODE})?"),
        re.compile(rf"{_NUMBER}{_CODE}\s*{verb}"),
        re.compile(rf"{verb}[\s,]*{_CODE_WORD}(?P<code>\d{{4}})"),
    )


_NUMBERED: dict[Kind, tuple[re.Pattern[str], ...]] = {kind: _numbered(verbs) for kind, verbs in _BESIDE_NUMBER.items()}


def read_decision(text: str) -> Decision | None:
    """The decision a whole typed message makes, or None for ordinary talk.

    The message is compared as a whole after NFKC, dropping mentions, skin tones and outer punctuation. A question never
    decides anything; neither does a sentence that only contains a word of agreement (C34, CNF-02).
    """
    if not text or len(text) > _MAX_CHARS:
        return None
    folded = fold(text)
    if len(folded) > _MAX_CHARS:
        return None
    plain = with_emoji(_MENTION.sub("", folded)).lstrip("/").strip(OUTER)
    if not plain or _UNSURE.search(folded) or _UNSURE.search(plain):
        return None
    word = simplified(plain).casefold()
    return _numbered_decision(word) or _every_decision(word) or _answer_decision(word) or _edit_decision(text, plain)


def _numbered_decision(word: str) -> Decision | None:
    for kind, patterns in _NUMBERED.items():
        for pattern in patterns:
            match = pattern.fullmatch(word)
            if match is not None:
                found = match.groupdict()
                number = found.get("number") or found.get("nth")
                return Decision(kind, number=int(number) if number else None, code=found.get("code"))
    return None


def _every_decision(word: str) -> Decision | None:
    joined = re.sub(r"\s+", "", word)
    return next((Decision(kind, all=True) for kind, pattern in _EVERY_ACT.items() if pattern.fullmatch(joined)), None)


def _answer_decision(word: str) -> Decision | None:
    answer = read_answer(word)
    return None if answer is None else Decision(answer.kind, strength="strong" if answer.strong else "weak")


def _edit_decision(text: str, plain: str) -> Decision | None:
    change = read_change(plain)
    return None if change is None else Decision("edit", number=change.number, edit_text=as_typed(text, change.said))
