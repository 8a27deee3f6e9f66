"""Reads whether a whole message confirms, rejects or edits a pending action; anything but an explicit word is nothing.

The reader sees only words, never what is open; ``tools.confirm`` decides what a decision may do (N-15, N-16).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

_MAX_CHARS = 200
_MAX_PIECES = 6


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


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_STRONG_YES = _words("确认执行 同意执行 确定执行 确认操作 我确认 确认 确定 执行 approve confirm")
_STRONG_NO = _words(
    "取消执行 取消操作 不要执行 不用执行 不执行 别执行 不确认 不同意 我拒绝 取消 拒绝 驳回 否决 我不同意 cancel deny reject"
)
_NUMBERED_YES = (*_STRONG_YES, "同意", "批准")
_WEAK_YES = frozenset(
    _words("好 好的 好啊 好呀 好哇 好嘞 好哒 好滴 好咧 好哦 好喔 可以 可以的 可以啊 可以呀 行 行的 行啊 行呀 中 成")
    + _words(
        "嗯 恩 嗯呢 嗯好 嗯好的 嗯可以 嗯行 嗯是的 对 对的 对啊 是 是的 是啊 是呀 没问题 没错 同意 我同意 批准 允许 要得 得嘞"
    )
    + _words("好呢 好哟 可以哦 是滴 是哒 对头 没毛病 当然 当然可以 好的呢 好的呀 好的哦 好的啊 好噢 好勒 好叻 阔以 可行")
    + _words("嗯对 嗯没问题 对呀 对哒 对滴 行嘞 行哒 行滴 中嘞 正确 没意见 无异议 没异议 我确定 确认无误 照办 通过 ok的 ok啊")
    + _words("好吧 行吧 成吧 成啊 中啊 没有问题 当然好 当然行 当然同意 完全同意 赞成 我赞成 执行吧 确认吧 办吧 就这么办 就这样办")
    + _words("妥了 要的 准了 那好 那行 那可以 都可以 完全可以 绝对可以")
    + _words("ok okay okey okk yes yep yeah yup sure 👌 👍 🆗 ✅ ✔ ☑ 🙆")
)
_WEAK_NO = frozenset(
    _words("不 不行 不好 不是 不是的 不中 不可以 不对 不要 不要了 不用 不用了 不必 不必了 不成 不了 算了 否 否定 别")
    + _words("不能 不可 不可能 不好的 没门 反对 我反对 不需要 不需要了 不批准 不允许 不通过 不对的 不是啊 不行的 不可以的")
    + _words("算了吧 还是算了 还是算了吧 取消吧 不做了 别做 别做了 放弃 作废")
    + _words("不好吧 不行吧 不太好 不太行 别了 不干 不办 不啦 不赞成 我不赞成 当然不 当然不行 当然不可以 绝对不行")
    + _words("no nope nah 👎 ✋ 🖐 ❌ ✖ 🚫 🙅")
)
_ANY_YES, _ANY_NO = _WEAK_YES | set(_STRONG_YES), _WEAK_NO | set(_STRONG_NO)
"""Words of a message of several: 确认 👌 agrees, and names no act alone."""
_ALL_YES = frozenset(_words("全部确认 确认全部 都确认 全确认 确认所有 全部执行 confirmall approveall"))
_ALL_NO = frozenset(_words("全部取消 取消全部 都取消 全取消 取消所有 全部拒绝 都不要 cancelall rejectall"))

_EMOJI = "".join(word for word in _WEAK_YES | _WEAK_NO if len(word) == 1 and ord(word) > 0x2600 and not "一" <= word <= "鿿")
_TRADITIONAL = str.maketrans("確認執絕對沒問題銷決準許為換後時間個這別嗎麼", "确认执绝对没问题销决准许为换后时间个这别吗么")
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff\u00ad\U0001f3fb-\U0001f3ff]")
_MENTION = re.compile(r"^@[^\s@]{1,40}\s+")
_TRIM = " \t\r\n。.!~"
_UNSURE = re.compile(r"[?？]|[吗么嘛]$|\.\.|。。|…")
"""A question, or a voice trailing off (「嗯……」)."""


def _numbered(words: tuple[str, ...]) -> re.Pattern[str]:
    verbs = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    number = r"(?:(?:#\s*)?(\d{1,6})|第\s*(\d{1,6})\s*(?:项|条|个)?)"  # 2 项 is how many, 第 2 项 is which
    code = r"(?:\s+(?:#|码|验证码)?\s*(\d{4}))?"
    return re.compile(rf"(?:{verbs})\s*{number}{code}|{number}\s*(?:{verbs}){code}")


_YES_NUMBER = _numbered(_NUMBERED_YES)
_NO_NUMBER = _numbered(_STRONG_NO)
_EDIT = re.compile(
    r"(?:(?:#|第)?(\d{1,6})(?:项|条)?\s+)?((?:请|麻烦)?(?:把|将)?[^\s,，。;；!]{0,12}?(?:改成|改为|改到|换成|换到|改在|改回|修改为|调整为|调整到))\s*(\S.*)",
    re.DOTALL,
)
_EDIT_FILLER = re.compile(r"^(?:请|麻烦)?(?:把|将)?(?:它|这个|那个)?(?:改成|改为|换成|修改为|调整为)$")


def read_decision(text: str) -> Decision | None:
    """The decision a whole typed message makes, or None for ordinary talk.

    The message is compared as a whole after NFKC, dropping mentions, skin tones and outer punctuation. A question never
    decides anything; neither does a sentence that only contains a word of agreement (C34, CNF-02).
    """
    if not text or len(text) > _MAX_CHARS:
        return None
    if _UNSURE.search(unicodedata.normalize("NFKC", text).rstrip()):
        return None
    plain = _plain(text)
    if not plain or _UNSURE.search(plain):
        return None
    return _numbered_decision(plain) or _word_decision(plain) or _edit_decision(plain)


def _plain(text: str) -> str:
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).strip()
    return _MENTION.sub("", folded).lstrip("/").strip(_TRIM)


def _word(plain: str) -> str:
    return plain.casefold().translate(_TRADITIONAL)


def _numbered_decision(plain: str) -> Decision | None:
    word = _word(plain)
    for pattern, kind in ((_YES_NUMBER, "confirm"), (_NO_NUMBER, "reject")):
        match = pattern.fullmatch(word)
        if match is not None:
            found = [group for group in match.groups() if group is not None]
            number, code = found[0], found[1] if len(found) > 1 else None
            return Decision("confirm" if kind == "confirm" else "reject", number=int(number), code=code)
    return None


def _word_decision(plain: str) -> Decision | None:
    word = _word(plain)
    joined = re.sub(r"\s+", "", word)
    if joined in _ALL_NO:
        return Decision("reject", all=True)
    if joined in _ALL_YES:
        return Decision("confirm", all=True)
    if word in _STRONG_YES:
        return Decision("confirm")
    if word in _STRONG_NO:
        return Decision("reject")
    pieces = _pieces(word)
    if pieces and all(_is_word(piece, _ANY_YES) for piece in pieces):
        return Decision("confirm", strength="weak")
    if pieces and all(_is_word(piece, _ANY_NO) for piece in pieces):
        return Decision("reject", strength="weak")
    return None


def _pieces(word: str) -> list[str]:
    spaced = re.sub(f"([{_EMOJI}])", r" \1 ", word)
    pieces = [piece for piece in re.split(rf"[{re.escape(_TRIM)}]+", spaced) if piece]
    return pieces if len(pieces) <= _MAX_PIECES else []


def _is_word(piece: str, words: frozenset[str]) -> bool:
    if piece in words:
        return True
    half = re.fullmatch(r"(.{1,3}?)\1{1,5}", piece)  # 好的好的, 不不不, okok
    return half is not None and half[1] in words


def _edit_decision(plain: str) -> Decision | None:
    match = _EDIT.fullmatch(plain.translate(_TRADITIONAL))
    if match is None or match[2][0] in "不别没未":
        return None
    lead = match[2]
    value = plain[match.start(3) :]
    text = value if _EDIT_FILLER.fullmatch(lead) else plain[match.start(2) :]
    return Decision("edit", number=int(match[1]) if match[1] else None, edit_text=text.strip())
