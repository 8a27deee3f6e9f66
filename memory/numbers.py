"""Chinese and Arabic numerals as numbers: 十二, 两百五十, 一万二, 3.5, 半."""

from __future__ import annotations

import re

_DIGITS = {char: value for value, chars in enumerate("零〇 一 二两 三 四 五 六 七 八 九".split()) for char in chars}  # noqa: SIM905
_UNITS = {"十": 10, "百": 100, "千": 1000}
_BIG = {"万": 10_000, "亿": 100_000_000}
CHINESE = "零〇一二两三四五六七八九十百千万亿"
_WEEKDAY = "[周期拜][一二三四五六]"
_DIGITS_BEGIN = r"(?<!\d)"
_CHINESE_BEGIN = rf"(?:(?<![{CHINESE}])(?!(?<=[周期拜])[一二三四五六])|(?<={_WEEKDAY}))"
"""A number begins where its digits do (so that a long run of them is tried once), and after the day in 周一两点."""
NUMBER = rf"(?:{_DIGITS_BEGIN}\d+(?:\.\d+)?|{_CHINESE_BEGIN}[{CHINESE}]+(?:点[零〇一二三四五六七八九]+)?)"
"""A regular expression for one number as :func:`parse_number` reads it."""
INTEGER = rf"(?:{_DIGITS_BEGIN}\d+|{_CHINESE_BEGIN}[{CHINESE}]+)"
_MAX_CHARS = 30
"""Nobody means a longer one; it would be too large for a float, or for Python to print."""


def parse_number(text: str) -> int | float | None:
    """The number a whole text spells, or None. ``两百五`` is 250, ``一万二`` 12,000, ``二〇二六`` 2026."""
    text = text.strip().replace(",", "")
    if len(text) > _MAX_CHARS:
        return None
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    mixed = re.fullmatch(r"(\d+(?:\.\d+)?)([十百千万亿]+)", text)
    if mixed:
        scale = 1
        for unit in mixed[2]:
            scale *= {**_UNITS, **_BIG}[unit]
        scaled = float(mixed[1]) * scale
        return int(scaled) if scaled == int(scaled) else scaled
    if text == "半":
        return 0.5
    whole, point, fraction = text.partition("点")
    if not whole or any(char not in CHINESE for char in whole):
        return None
    value = _chinese(whole)
    if value is None or not point:
        return value
    if not fraction or any(char not in _DIGITS for char in fraction):
        return None
    return float(f"{value}." + "".join(str(_DIGITS[char]) for char in fraction))


def _chinese(text: str) -> int | None:
    if all(char in _DIGITS for char in text):
        return int("".join(str(_DIGITS[char]) for char in text)) if len(text) > 1 else _DIGITS[text]
    total = section = digit = 0
    last_unit = 1
    for position, char in enumerate(text):
        if char in _DIGITS:
            digit = _DIGITS[char]
            if char in "零〇":
                last_unit = 1
            elif position == len(text) - 1 and last_unit >= 100:
                digit *= last_unit // 10  # 两百五, 一万二
        elif char in _UNITS:
            section += (digit or 1) * _UNITS[char]
            digit, last_unit = 0, _UNITS[char]
        else:
            total = (total + section + digit or 1) * _BIG[char]
            section = digit = 0
            last_unit = _BIG[char]
    return total + section + digit
