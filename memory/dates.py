"""Chinese time expressions: what stretch of time a text speaks of, and which moment a plan means (Asia/Shanghai)."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal

from memory.numbers import INTEGER, parse_number

Towards = Literal["past", "future"]
Span = tuple[date, date]
_Rule = Callable[[re.Match[str], date, Towards], Span | None]
_WEEK = {char: number for number, chars in enumerate(("一", "二", "三", "四", "五", "六", "日天")) for char in chars}
_WEEK |= {str(number + 1): number for number in range(7)}
_MAX_YEAR, _MIN_YEAR = 9998, 2


@dataclass(frozen=True, slots=True)
class Stretch:
    """Days a text speaks of: first and last, and where in the (NFKC) text the words stand."""

    first: date
    last: date
    start: int
    end: int

    def bounds(self) -> tuple[datetime, datetime]:
        """First and last moment, naive local time."""
        return datetime.combine(self.first, time.min), datetime.combine(self.last, time.max)


def find_stretches(text: str, now: datetime, towards: Towards = "past") -> list[Stretch]:
    """Every date expression of ``text``, left to right, none overlapping. ``towards`` says where an open one (周五, 3月3日)
    lies; positions are those of the NFKC form."""
    plain = unicodedata.normalize("NFKC", text)
    found: list[Stretch] = []
    at = 0
    while (match := _ANY.search(plain, at)) is not None:
        at = match.end()
        span = _span(match.group(), now.date(), towards)
        if span is not None:
            found.append(Stretch(span[0], span[1], match.start(), match.end()))
    return found


def find_impossible(plain: str, today: date) -> tuple[str, tuple[int, int]] | None:
    """The first day that does not come (2月30日, 13月5号) in an NFKC text, and where; or None."""
    at = 0
    while (match := _ANY.search(plain, at)) is not None:
        at = match.end()
        if _MONTH_AND_DAY.fullmatch(match.group()) and _span(match.group(), today, "future") is None:
            return match.group(), match.span()
    return None


def resolve_range(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The stretch of time a question about the past means (上周五, 5月2号, 几周前), or None. Naive local time."""
    found = find_stretches(text, now, "past")
    return found[0].bounds() if found else None


def _span(expression: str, today: date, towards: Towards) -> Span | None:
    for pattern, rule in _RULES:
        match = pattern.fullmatch(expression)
        if match is not None:
            try:
                return rule(match, today, towards)
            except (ValueError, OverflowError):
                return None
    return None


def _day(match: re.Match[str], today: date, towards: Towards) -> Span:
    word = match.group()
    days = {"今": 0, "明": 1, "昨": -1, "前": -2, "后": 2, "当": 0}[word.removeprefix("大")[0]]
    if word.startswith("大"):
        days += 1 if days > 0 else -1
    return _one(today + timedelta(days=days))


def _full(match: re.Match[str], today: date, towards: Towards) -> Span | None:
    year = {"今年": 0, "去年": -1, "前年": -2, "明年": 1}.get(match["year"] or "")
    month, day = _int(match["month"]), _int(match["day"])
    if year is not None:
        return _one(date(today.year + year, month, day))
    if match["year"]:
        number = _int(match["year"].rstrip("年-/."))
        return _one(date(number + 2000 if number < 100 else number, month, day))
    return _one(_nearest_year(today, month, day, towards))


def _nearest_year(today: date, month: int, day: int, towards: Towards) -> date:
    """This year's date, or the neighbouring year's when it lies on the wrong side of today."""
    years = (0, -1, -2, -3, -4) if towards == "past" else (0, 1, 2, 3, 4)
    for shift in years:
        try:
            found = date(today.year + shift, month, day)
        except ValueError:
            continue
        if (found <= today) if towards == "past" else (found >= today):
            return found
    raise ValueError("no such day")


def _month(match: re.Match[str], today: date, towards: Towards) -> Span:
    month = _int(match["month"])
    year = {"今年": 0, "去年": -1, "前年": -2, "明年": 1}.get(match["year"] or "")
    if year is not None:
        return _of_month(today.year + year, month)
    if match["year"]:
        return _of_month(_int(match["year"].rstrip("年")), month)
    shift = 0
    if towards == "past" and month > today.month:
        shift = -1
    elif towards == "future" and month < today.month:
        shift = 1
    return _of_month(today.year + shift, month)


def _day_of_month(match: re.Match[str], today: date, towards: Towards) -> Span:
    day, month = _int(match["day"]), (today.year, today.month)
    if match["month"]:
        return _one(date(*_shift_month(month, _month_word(match["month"])), day))
    for step in range(0, 4):
        year, number = _shift_month(month, -step if towards == "past" else step)
        if day > calendar.monthrange(year, number)[1]:
            continue
        found = date(year, number, day)
        if (found <= today) if towards == "past" else (found >= today):
            return _one(found)
    raise ValueError("no such day")


def _weekday(match: re.Match[str], today: date, towards: Towards) -> Span:
    monday = today - timedelta(days=today.weekday())
    shift = _week_word(match["week"] or "")
    found = monday + timedelta(days=7 * shift + _WEEK[match["day"]])
    if not match["week"] and towards == "future" and found < today:
        found += timedelta(days=7)
    return _one(found)


def _weekend(match: re.Match[str], today: date, towards: Towards) -> Span:
    saturday = today - timedelta(days=today.weekday()) + timedelta(days=7 * _week_word(match["week"] or "") + 5)
    return saturday, saturday + timedelta(days=1)


def _week(match: re.Match[str], today: date, towards: Towards) -> Span:
    monday = today - timedelta(days=today.weekday()) + timedelta(days=7 * _week_word(match["week"]))
    return monday, monday + timedelta(days=6)


def _week_word(word: str) -> int:
    bare = word.removesuffix("个")
    return {"上上": -2, "上": -1, "下": 1, "下下": 2}.get(bare, 0)


def _month_word(word: str) -> int:
    return {"上上": -2, "上": -1, "下": 1, "下下": 2}.get(word.removesuffix("月").removesuffix("个"), 0)


def _month_relative(match: re.Match[str], today: date, towards: Towards) -> Span:
    year, month = _shift_month((today.year, today.month), _month_word(match["which"]))
    first, last = _of_month(year, month)
    part = match["part"]
    if part == "初":
        return first, date(year, month, 10)
    if part == "中":
        return date(year, month, 11), date(year, month, 20)
    if part in ("底", "末"):
        return (date(year, month, 21), last) if towards == "past" else (last, last)
    return first, last


def _month_part(match: re.Match[str], today: date, towards: Towards) -> Span:
    first, last = _of_month(today.year, today.month)
    if match["part"] == "初":
        return first, first + timedelta(days=9)
    if match["part"] == "中":
        return first + timedelta(days=10), first + timedelta(days=19)
    return (first + timedelta(days=20), last) if towards == "past" else (last, last)


def _year(match: re.Match[str], today: date, towards: Towards) -> Span:
    year = today.year + {"今": 0, "本": 0, "去": -1, "前": -2, "明": 1, "后": 2}[match["which"]]
    return _part_of_year(year, match["part"] or "")


def _half(match: re.Match[str], today: date, towards: Towards) -> Span:
    return _part_of_year(today.year, match.group())


def _part_of_year(year: int, part: str) -> Span:
    if part == "上半年":
        return date(year, 1, 1), date(year, 6, 30)
    if part == "下半年":
        return date(year, 7, 1), date(year, 12, 31)
    if part.endswith("初"):
        return date(year, 1, 1), date(year, 1, 31)
    if part.endswith(("底", "末")):
        return date(year, 12, 1), date(year, 12, 31)
    return date(year, 1, 1), date(year, 12, 31)


def _quarter(match: re.Match[str], today: date, towards: Towards) -> Span:
    year, current = today.year, (today.month - 1) // 3
    word = match["which"]
    if word in ("上", "上个", "本", "这", "这个", "下", "下个"):
        index = year * 4 + current + {"上": -1, "下": 1}.get(word[0], 0)
    else:
        number = _int(word.lstrip("第Qq")) - 1
        if not 0 <= number <= 3:
            raise ValueError("no such quarter")
        year += {"去年": -1, "前年": -2, "明年": 1}.get(match["year"] or "", 0)
        index = year * 4 + number
        if towards == "past" and not match["year"] and number > current:
            index -= 4
    year, quarter = divmod(index, 4)
    return date(year, quarter * 3 + 1, 1), _of_month(year, quarter * 3 + 3)[1]


def _ago(match: re.Match[str], today: date, towards: Towards) -> Span | None:
    unit, word = match["unit"].lstrip("个"), match["count"]
    sign = -1 if match["way"] in ("前", "以前", "之前") else 1
    if word in ("几", "好几", "数"):
        step = {"天": 1, "日": 1, "周": 7, "星期": 7, "礼拜": 7, "月": 30}.get(unit)
        if step is None:
            return None
        near, far = today + timedelta(days=sign * 2 * step), today + timedelta(days=sign * 5 * step)
        return (far, near) if sign < 0 else (near, far)
    if word == "半":
        return _one(_shift(today, sign * {"年": 6, "月": 0}[unit], sign * (15 if unit == "月" else 0)))
    count = parse_number(word)
    if not isinstance(count, int) or count > 100_000:
        return None
    if unit in ("年", "月"):
        return _one(_shift(today, sign * count * (12 if unit == "年" else 1), 0))
    return _one(today + timedelta(days=sign * count * (7 if unit in ("周", "星期", "礼拜") else 1)))


def _recent(match: re.Match[str], today: date, towards: Towards) -> Span | None:
    unit, word = match["unit"].lstrip("个"), match["count"] or "一"
    ahead = match["way"] in ("未来", "接下来", "今后")
    count = 3 if word in ("几", "这几") else parse_number(word)
    if word == "半":
        other = _shift(today, (6 if unit == "年" else 0) * (1 if ahead else -1), 0 if unit == "年" else (15 if ahead else -15))
    elif not isinstance(count, int):
        return None
    elif unit in ("年", "月"):
        other = _shift(today, (1 if ahead else -1) * count * (12 if unit == "年" else 1), 0)
    else:
        other = today + timedelta(days=(1 if ahead else -1) * count * (7 if unit in ("周", "星期", "礼拜") else 1))
    return (today, other) if ahead else (other, today)


def _holiday(match: re.Match[str], today: date, towards: Towards) -> Span:
    month, day = _HOLIDAYS[match.group().removesuffix("节")]
    return _one(_nearest_year(today, month, day, towards))


_HOLIDAYS = {"元旦": (1, 1), "妇女": (3, 8), "劳动": (5, 1), "五一": (5, 1), "儿童": (6, 1), "国庆": (10, 1), "圣诞": (12, 25)}


def _one(day: date) -> Span:
    if not _MIN_YEAR <= day.year <= _MAX_YEAR:
        raise ValueError("out of range")
    return day, day


def _of_month(year: int, month: int) -> Span:
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _shift_month(month: tuple[int, int], by: int) -> tuple[int, int]:
    year, index = divmod(month[0] * 12 + month[1] - 1 + by, 12)
    return year, index + 1


def _shift(day: date, months: int, days: int) -> date:
    """The same day of another month; the last one where there is none such (2-29 → 2-28)."""
    year, month = _shift_month((day.year, day.month), months)
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1])) + timedelta(days=days)


def _int(text: str) -> int:
    number = parse_number(text)
    if not isinstance(number, int):
        raise ValueError("no number")
    return number


_N = INTEGER
_Y = r"(?:\d{4}|[零〇一二三四五六七八九]{4}|[一两二]千[零〇百一二两三四五六七八九十]{1,7})"
_UNIT = r"(?P<unit>天|日|个?星期|个?礼拜|周|个?月|年)"
_RULES: list[tuple[re.Pattern[str], _Rule]] = [
    (re.compile(pattern), rule)
    for pattern, rule in (
        (rf"(?P<year>{_Y}年|\d{{2}}年|今年|去年|前年|明年)?(?P<month>{_N})月(?P<day>{_N})[日号]?", _full),
        (r"(?P<year>\d{4}[-/.])(?P<month>\d{1,2})[-/.](?P<day>\d{1,2})", _full),
        (r"(?P<year>)(?<![\d./-])(?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?![\d./%-]|[个人台次元天条份小分])", _full),
        (r"(?P<year>)(?P<month>\d{1,2})\.(?P<day>\d{1,2})[日号]", _full),
        (rf"(?P<year>{_Y}年|今年|去年|前年|明年)?(?P<month>{_N})月份?", _month),
        (r"大?[前后]天|[今明昨]天|[今明昨后]儿个?|[今明昨]日|[今明昨]早|[今明昨]晚|当天", _day),
        (
            rf"(?P<month>(?:上上|下下|上|下|这|本)个?月)?(?P<day>{_N})[号日](?![楼线机门库仓店院员码栋厅室房馆桌柜窗车服标牌站区桥井炉箱])",
            _day_of_month,
        ),
        (r"(?P<week>(?:上上|下下|上|下|这|本)个?)?(?:周|星期|礼拜)末", _weekend),
        (r"(?P<week>(?:上上|下下|上|下|这|本)个?)?(?:周|星期|礼拜)(?P<day>[一二三四五六日天1-7])", _weekday),
        (r"(?P<week>(?:上上|下下|上|下|这|本)个?)(?:周|星期|礼拜)", _week),
        (r"(?P<which>(?:上上|下下|上|下|这|本)个?月)(?P<part>[初中底末])?", _month_relative),
        (r"月(?P<part>[初底末]|的?最后一天)", _month_part),
        (r"(?P<which>[今本去前明后])年(?P<part>上半年|下半年|初|底|末|年初|年底|年末)?", _year),
        (r"上半年|下半年|年初|年底|年末", _half),
        (
            r"(?P<year>今年|去年|前年|明年)?(?P<which>第?[一二三四1-4]|[Qq][1-4]|上个?|下个?|这个?|本)(?:季度|(?<=[Qq][1-4]))",
            _quarter,
        ),
        (rf"(?P<count>好几|几|数|半|{_N}){_UNIT}(?P<way>以前|之前|前|以后|之后|后)", _ago),
        (rf"(?P<way>最近|过去|近|未来|接下来|今后)的?(?P<count>几|半|{_N})?{_UNIT}", _recent),
        (rf"(?P<way>这)(?P<count>几|半|{_N}){_UNIT}", _recent),
        (r"元旦|妇女节|劳动节|五一|儿童节|国庆节?|圣诞节?", _holiday),
    )
]
_MONTH_AND_DAY = re.compile(rf"(?:{_Y}年|\d{{2}}年|[今去前明]年)?{_N}月{_N}[日号]?|(?:上上|下下|上|下|这|本)个?月{_N}[号日]")
_ORDER = (15, 16, 17, 0, 1, 2, 3, 4, 6, 5, 7, 8, 9, 10, 12, 14, 13, 11, 18)
"""Longest and most telling first: 三个月前 before 三个月, 3月3日 before 3月."""
_ANY = re.compile("|".join(f"(?:{re.sub(r'[(][?]P<[a-z]+>', '(?:', _RULES[index][0].pattern)})" for index in _ORDER))
