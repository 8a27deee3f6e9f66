"""When a plan is meant: 明天上午, 下周三下午三点, 半小时后 as one moment in Asia/Shanghai, and how it repeats."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal

from memory.dates import Stretch, find_impossible, find_stretches
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
_NIGHT = frozenset({"晚上", "夜里", "半夜", "晚"})
"""Parts of the day whose small hours belong to the day after: 今晚十二点, 明天半夜两点."""
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

_UNKNOWN_REPEAT = re.compile(
    rf"每隔(?:(?:半|两|{INTEGER})个?(?:天|日|周|星期|礼拜|月|年|小时|钟头|分钟))?|隔(?:一?天|周|月)|每(?:半个?|{INTEGER}个?)?(?:小时|钟头|分钟|刻钟)|每(?:两|[二三四五六七八九十2-9]|\d\d)个?(?:天|日|周|星期|礼拜|月)"
    r"|每个?(?:季度?|半?年)|每年|每个?(?:周|星期|礼拜)[一二三四五六日天1-7](?:[、和,及跟]?(?:周|星期|礼拜)?[一二三四五六日天1-7](?![点时:\d]))+"
)
_SOME_TIME = re.compile(
    "等一?会儿?|等一?下|待会儿?|一会儿|过一?会儿?|过几天|过两天|晚点儿?|晚些时候|稍后|回头|有空(?:的?时候)?|改天|改日|以后"
)
_OPEN_DAY = re.compile(rf"(?:周|星期|礼拜)[一二三四五六日天末1-7]|{INTEGER}[号日]")
_WIDEST_DAYS = 3
"""周末 means its first day; 下周 and 过几天 mean none in particular."""


def unknown_repeat(text: str) -> str | None:
    """The words for a rhythm that reminders do not have (每隔一天, 每小时, 每周一三五), or None."""
    match = _UNKNOWN_REPEAT.search(unicodedata.normalize("NFKC", text))
    return match.group() if match is not None else None


def impossible_time(text: str, now: datetime) -> tuple[str, tuple[int, int]] | None:
    """A day or an hour that is said but does not exist (11月31号, 25点), and where in the NFKC text; or None."""
    plain = unicodedata.normalize("NFKC", text)
    for match in _CLOCK.finditer(plain):
        number = parse_number(match["hour"]) if match["hour"] is not None else None
        if isinstance(number, int) and number < 100 and _read_clock(match) is None:
            return match.group(), match.span()
    return find_impossible(plain, now.date())


def vague_time(text: str, now: datetime) -> tuple[str, tuple[int, int]] | None:
    """The words that mean no moment in particular (下周, 过几天, 等会儿), and where in the NFKC text; None when the text
    names a plainer time, or none at all."""
    plain = unicodedata.normalize("NFKC", text)
    days = find_stretches(plain, now, "future")
    if days and not _is_one_day(days[0]):
        return plain[days[0].start : days[0].end], (days[0].start, days[0].end)
    match = _SOME_TIME.search(plain)
    return (match.group(), match.span()) if match is not None and not days else None


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
    if days and not _is_one_day(days[0]):
        return None
    if clock is None:
        day = days[0]
        return Moment(_at(now, day.first, time(default_hour)), False, ((day.start, day.end),))
    spans = (*((day.start, day.end) for day in days[:1]), clock_span)
    if days:
        return Moment(_on_day(plain, days[0], clock, now), True, spans)
    return Moment(_next(now, clock, tonight=not repeating), True, spans)


def _is_one_day(day: Stretch) -> bool:
    return (day.last - day.first).days < _WIDEST_DAYS


def _on_day(plain: str, day: Stretch, clock: _Clock, now: datetime) -> datetime:
    """The hour on that day; 周三上午 said on Wednesday afternoon is next week's."""
    shift = timedelta(days=1) if clock.next_day else timedelta()
    at = _at(now, day.first, clock.when) + shift
    if at > now or not _OPEN_DAY.fullmatch(plain[day.start : day.end]):
        return at
    later = find_stretches(plain[day.start : day.end], now + timedelta(days=1), "future")
    return _at(now, later[0].first, clock.when) + shift if later else at


@dataclass(frozen=True, slots=True)
class _Clock:
    when: time
    said_half: bool
    """Whether the half of the day was said, so that 3 点 cannot mean the other half."""
    next_day: bool = False
    """Whether it is after the midnight that ends the day named: 今晚十二点, 24点."""


def _clock(text: str) -> tuple[_Clock | None, tuple[int, int]]:
    for match in _CLOCK.finditer(text):
        found = _read_clock(match)
        if found is not None:
            return found, match.span()
    part = _PART.search(text)
    if part is None:
        return None, (0, 0)
    return _Clock(time(_PERIODS[part.group()]), True, part.group() == "半夜"), part.span()


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
    if hour == 24 or (period in _NIGHT and (hour == 12 or hour < 6)):
        return _Clock(time(hour % 12, minute), True, next_day=True)
    late = period in _AFTERNOON and hour < 12 and not (period == "中午" and hour >= 11)
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
