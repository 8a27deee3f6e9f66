"""Folds what a person typed to the one form the whole-message readers compare: NFKC, nothing invisible, simplified characters."""

from __future__ import annotations

import re
import unicodedata

_TRADITIONAL = (
    "確認執絕對沒問題銷決準許為換後時間個這別嗎麼駁贊辦見誤異議無當調項條編號驗證碼標將煩請幫還點棄幹統應該說錯發過單門開動係冇嘅"
    "狀態繼續診斷試話選級類報週會檔線網頁電話員長優結終數據備註內負責質關機"
)
_SIMPLE = (
    "确认执绝对没问题销决准许为换后时间个这别吗么驳赞办见误异议无当调项条编号验证码标将烦请帮还点弃干统应该说错发过单门开动是没的"
    "状态继续诊断试话选级类报周会档线网页电话员长优结终数据备注内负责质关机"
)
_SIMPLIFIED = str.maketrans(_TRADITIONAL, _SIMPLE)
"""Of the words that are looked for, one character for one, so that positions stay. 係 冇 嘅: Cantonese for 是 没 的."""
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff\u00ad\u2640\u2642\U0001f3fb-\U0001f3ff]")
"""Zero-width characters, and what only says how an emoji looks: skin tone, sex, text or picture."""

OUTER = " \t\r\n。.!~〜"
"""Punctuation around a message that says nothing."""


def fold(text: str) -> str:
    """NFKC without invisible characters and outer spaces. Folding twice changes nothing more."""
    folded = unicodedata.normalize("NFKC", text)
    bare = _INVISIBLE.sub("", folded)
    return (bare if bare == folded else unicodedata.normalize("NFKC", bare)).strip()


def simplified(text: str) -> str:
    """The same text in simplified characters, position by position."""
    return text.translate(_SIMPLIFIED)


def as_typed(text: str, tail: str) -> str:
    """What was typed for ``tail``, the end of the folded text: full-width punctuation and all."""
    whole = text
    while whole and not fold(whole[-1]).strip(OUTER):
        whole = whole[:-1]
    return next((whole[start:].strip() for start in range(len(whole)) if fold(whole[start:]) == tail), tail)
