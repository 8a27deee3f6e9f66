"""When a plan is meant: 明天上午, 下周三下午三点, 半小时后 as one moment in Asia/Shanghai, and how it repeats."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal

from memory.dates import find_stretches
from memory.numbers import INTEGER, NUMBER, parse_number

Repeat = Literal["none", "daily", "weekdays", "weekly", "monthly"]


@dataclass(frozen=True, slots=True)
class Moment:
    """``at`` carries the zone of ``now``. ``exact``: an hour or a part of the day was said. ``spans``: where, in NFKC text."""

    at: datetime
    exact: bool
    spans: tuple[tuple[int, int], ...]


_PERIODS = {
    "凌晨": 1, "清晨": 7, "一早": 8, "早上": 8, "早晨": 8, "上午": 9, "中午": 12, "午后": 14, "下午": 14, "傍晚": 18,
    "晚上": 20, "夜里": 22, "半夜": 0, "上班前": 8, "上班后": 9, "下班前": 17, "下班后": 18, "早": 8, "晚": 20,
}  # fmt: skip
_AFTERNOON = frozenset({"中午", "午后", "下午", "傍晚", "晚上", "夜里", "下班前", "下班后", "晚"})
_PERIOD = "|".join(sorted((word for word in _PERIODS if len(word) > 1), key=len, reverse=True))
_CLOCK = re.compile(
    rf"(?:(?P<period>{_PERIOD}|(?<=[今明昨])[早晚]|早|晚)的?)?"
    rf"(?:(?P<hour>{INTEGER})(?:点钟?|时)(?:(?P<half>半)|(?P<quarter>[一三])刻|整|(?P<minute>{INTEGER})分?)?"
    r"|(?P<hh>\d{1,2}):(?P<mm>\d{2})(?::\d{2})?)"
)
_PART = re.compile(rf"{_PERIOD}|(?<=[今明昨])[早晚]")
_AFTER = re.compile(
    rf"(?:过|再过)?(?P<count>半|{NUMBER})个?(?P<half>半)?(?P<unit>小时|钟头|分钟|刻钟|分|秒钟?)(?:以后|之后|后)"
    rf"|(?:过|再过)(?P<count2>半|{NUMBER})个?(?P<half2>半)?(?P<unit2>小时|钟头|分钟|刻钟|分)"
)
_SECONDS = {"小时": 3600, "钟头": 3600, "分钟": 60, "分": 60, "刻钟": 900, "秒": 1, "秒钟": 1}
_REPEATS: tuple[tuple[re.Pattern[str], Repeat], ...] = (
    (re.compile(r"(?:每个?|每到)(?:工作日|上班日)|工作日(?:每天)?"), "weekdays"),
    (re.compile(r"每(?:个)?(?:周|星期|礼拜)(?=[一二三四五六日天末])|每(?:个)?(?:周|星期|礼拜)"), "weekly"),
    (re.compile(r"每个?月"), "monthly"),
    (re.compile(r"每[天日晚]|天天|每(?=早|天|晚|上午|下午)"), "daily"),
)


def find_repeat(text: str) -> tuple[Repeat, tuple[int, int] | None]:
    """How often a plan repeats (每天, 每周五, 工作日, 每月), and where that was said."""
    plain = unicodedata.normalize("NFKC", text)
    for pattern, repeat in _REPEATS:
        match = pattern.search(plain)
        if match is not None:
            return repeat, match.span()
    return "none", None


def find_moment(text: str, now: datetime, *, default_hour: int = 9, repeating: bool = False) -> Moment | None:
    """The moment a plan means, or None when the text names no time.

    ``now`` is zone-aware. A day without an hour means ``default_hour``; an hour without a day means its next occurrence;
    an hour of 1 to 6 without 上午 or 下午 means the afternoon; a late one today means tonight, unless ``repeating``. May lie
    in the past when the text says so.
    """
    plain = unicodedata.normalize("NFKC", text)
    after = _after(plain, now)
    if after is not None:
        return after
    iso = re.search(r"(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})", plain)
    if iso is not None:
        return _iso(iso, now)
    days = find_stretches(plain, now, "future")
    clock, clock_span = _clock(plain)
    if not days and clock is None:
        return None
    if clock is None:
        day = days[0]
        return Moment(_at(now, day.first, time(default_hour)), False, ((day.start, day.end),))
    spans = (*((day.start, day.end) for day in days[:1]), clock_span)
    if days:
        return Moment(_at(now, days[0].first, clock.when), True, spans)
    return Moment(_next(now, clock, tonight=not repeating), True, spans)


@dataclass(frozen=True, slots=True)
class _Clock:
    when: time
    said_half: bool
    """Whether the half of the day was said, so that 3 点 cannot mean the other half."""


def _clock(text: str) -> tuple[_Clock | None, tuple[int, int]]:
    for match in _CLOCK.finditer(text):
        found = _read_clock(match)
        if found is not None:
            return found, match.span()
    part = _PART.search(text)
    if part is None:
        return None, (0, 0)
    return _Clock(time(_PERIODS[part.group()]), True), part.span()


def _read_clock(match: re.Match[str]) -> _Clock | None:
    if match["hh"] is not None:
        hour, minute = int(match["hh"]), int(match["mm"])
    else:
        number = parse_number(match["hour"])
        hour = number if isinstance(number, int) else 99
        minute = _minute(match)
    period = match["period"]
    if hour > 24 or minute > 59:
        return None
    late = period in _AFTERNOON and hour < 12 and not (period == "中午" and hour >= 11) and not (period == "夜里" and hour < 6)
    bare = period is None and match["hh"] is None and 1 <= hour <= 6
    if late or bare:
        hour += 12
    return _Clock(time(hour % 24, minute), period is not None or hour > 12 or match["hh"] is not None)


def _minute(match: re.Match[str]) -> int:
    if match["half"]:
        return 30
    if match["quarter"]:
        return 15 if match["quarter"] == "一" else 45
    if match["minute"]:
        number = parse_number(match["minute"])
        return number if isinstance(number, int) else 99
    return 0


def _next(now: datetime, clock: _Clock, *, tonight: bool) -> datetime:
    found = _at(now, now.date(), clock.when)
    if found > now:
        return found
    if tonight and not clock.said_half and found + timedelta(hours=12) > now and clock.when.hour < 12:
        return found + timedelta(hours=12)
    return found + timedelta(days=1)


def _after(text: str, now: datetime) -> Moment | None:
    match = _AFTER.search(text)
    if match is None:
        return None
    count = parse_number(match["count"] or match["count2"])
    if count is None or count > 1_000_000:
        return None
    unit = match["unit"] or match["unit2"]
    amount = count + (0.5 if match["half"] or match["half2"] else 0)
    return Moment(now + timedelta(seconds=amount * _SECONDS[unit]), True, (match.span(),))


def _iso(match: re.Match[str], now: datetime) -> Moment | None:
    try:
        year, month, day, hour, minute = (int(part) for part in match.groups())
        at = datetime(year, month, day, hour, minute, tzinfo=now.tzinfo)
    except ValueError:
        return None
    return Moment(at, True, (match.span(),))


def _at(now: datetime, day: date, when: time) -> datetime:
    return datetime.combine(day, when, tzinfo=now.tzinfo)
