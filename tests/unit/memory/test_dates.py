"""Chinese time expressions: stretches of the past, moments of plans, numbers."""

from __future__ import annotations

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.clock import SHANGHAI
from memory.dates import find_stretches, resolve_range
from memory.moments import find_moment, find_repeat, impossible_time, unknown_repeat, vague_time
from memory.numbers import parse_number
from tests.shared_data import shared_json

NOW = datetime(2026, 8, 12, 14, 30, tzinfo=SHANGHAI)  # a Wednesday


def test_all_given_expressions() -> None:
    """The 186 golden cases, all of them."""
    wrong = []
    cases = shared_json("data/memory/time_zh.json")["cases"]
    for case in cases:
        expected = None if case["range"] is None else tuple(datetime.fromisoformat(moment) for moment in case["range"])
        if resolve_range(case["text"], datetime.fromisoformat(case["now"])) != expected:
            wrong.append((case["now"], case["text"]))
    assert len(cases) == 186
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("上周五那三台设备", "2026-08-07", "2026-08-07"),
        ("5月2号的会", "2026-05-02", "2026-05-02"),
        ("昨天", "2026-08-11", "2026-08-11"),
        ("大前天", "2026-08-09", "2026-08-09"),
        ("最近三天", "2026-08-09", "2026-08-12"),
        ("上个月底", "2026-07-21", "2026-07-31"),
        ("二〇二五年十月一日", "2025-10-01", "2025-10-01"),
        ("2025-12-31 的日志", "2025-12-31", "2025-12-31"),
        ("去年国庆", "2025-01-01", "2025-12-31"),
        ("第一季度", "2026-01-01", "2026-03-31"),
        ("上上周三", "2026-07-29", "2026-07-29"),
        ("31号", "2026-07-31", "2026-07-31"),
    ],
)
def test_stretches(text: str, first: str, last: str) -> None:
    found = find_stretches(text, NOW)[0]
    assert (found.first, found.last) == (date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize("text", ["3号楼", "完成了1/2个", "版本 1.2.3", "web-01", "2月30日", "13月5日", "99999年前", "100%"])
def test_what_is_no_date(text: str) -> None:
    assert find_stretches(text, NOW) == []


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("明天上午提醒我", "2026-08-13T09:00"),
        ("下周三下午三点开会", "2026-08-19T15:00"),
        ("后天", "2026-08-14T09:00"),
        ("周五", "2026-08-14T09:00"),
        ("周一", "2026-08-17T09:00"),
        ("半小时后", "2026-08-12T15:00"),
        ("两个半小时后", "2026-08-12T17:00"),
        ("10分钟后叫我", "2026-08-12T14:40"),
        ("今晚八点", "2026-08-12T20:00"),
        ("晚上8点半", "2026-08-12T20:30"),
        ("3点", "2026-08-12T15:00"),
        ("2点", "2026-08-13T14:00"),
        ("15:30", "2026-08-12T15:30"),
        ("明早", "2026-08-13T08:00"),
        ("下个月5号下午2点", "2026-09-05T14:00"),
        ("三天后下午两点", "2026-08-15T14:00"),
        ("明天中午十二点", "2026-08-13T12:00"),
        ("凌晨两点", "2026-08-13T02:00"),
        ("2026-08-20T09:00:00+08:00", "2026-08-20T09:00"),
        ("大后天下午三点一刻", "2026-08-15T15:15"),
        ("３月３日", "2027-03-03T09:00"),
        ("今晚十二点", "2026-08-13T00:00"),
        ("今晚零点", "2026-08-13T00:00"),
        ("今天24点", "2026-08-13T00:00"),
        ("明天半夜两点", "2026-08-14T02:00"),
        ("后天晚上12点", "2026-08-15T00:00"),
        ("周三上午十点", "2026-08-19T10:00"),
        ("12号上午九点", "2026-09-12T09:00"),
        ("明儿下午", "2026-08-13T14:00"),
        ("每月最后一天", "2026-08-31T09:00"),
        ("周一两点开会", "2026-08-17T14:00"),
        ("周三三点", "2026-08-12T15:00"),
        ("星期一一点半", "2026-08-17T13:30"),
        ("周五五点", "2026-08-14T17:00"),
        ("下周一十点", "2026-08-17T10:00"),
        ("周二二十点", "2026-08-18T20:00"),
        ("每周一九点", "2026-08-17T09:00"),
        ("周四十五点", "2026-08-13T15:00"),
        ("礼拜天十点", "2026-08-16T10:00"),
    ],
)
def test_moments(text: str, moment: str) -> None:
    found = find_moment(text, NOW)
    assert found is not None
    assert found.at.isoformat(timespec="minutes") == moment + "+08:00"


@pytest.mark.parametrize("text", ["没有时间", "web-01 的内存告警", "给我三个苹果", "25点", ""])
def test_no_moment(text: str) -> None:
    assert find_moment(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "repeat"),
    [("每天早上八点", "daily"), ("每周五", "weekly"), ("工作日9点", "weekdays"), ("每个月1号", "monthly"), ("明天", "none")],
)
def test_repeats(text: str, repeat: str) -> None:
    assert find_repeat(text)[0] == repeat


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("提醒我11月31号交报告", "11月31号"),
        ("2月30日", "2月30日"),
        ("下个月31号", "下个月31号"),
        ("今天25点睡觉", "25点"),
        ("3点70分", "3点70分"),
        ("2月29日", None),  # comes in 2028
        ("攒够100点", None),
        ("明天上午九点", None),
    ],
)
def test_what_no_calendar_has(text: str, said: str | None) -> None:
    found = impossible_time(text, NOW)
    assert (found and found[0]) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("下周开会", "下周"),
        ("等会儿", "等会儿"),
        ("过几天", "过几天"),
        ("年底", "年底"),
        ("周末", None),
        ("月底", None),
        ("明天", None),
    ],
)
def test_which_words_name_no_day_in_particular(text: str, said: str | None) -> None:
    found = vague_time(text, NOW)
    assert (found and found[0]) == said
    assert said is None or find_moment(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("每隔一天浇花", "每隔一天"),
        ("每小时", "每小时"),
        ("每两周", "每两周"),
        ("每周一三五早上八点", "每周一三五"),
        ("每周一和周三", "每周一和周三"),
        ("每周一9点", None),
        ("每天", None),
        ("每月1号", None),
    ],
)
def test_rhythms_that_are_not_offered(text: str, said: str | None) -> None:
    assert unknown_repeat(text) == said


def test_a_repeating_hour_is_not_moved_to_tonight() -> None:
    found = find_moment("9点", NOW, repeating=True)
    assert found is not None
    assert found.at.hour == 9


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("十二", 12),
        ("两百五十", 250),
        ("两百五", 250),
        ("一万二", 12_000),
        ("二〇二六", 2026),
        ("一百零五", 105),
        ("三点五", 3.5),
        ("半", 0.5),
        ("一百万", 1_000_000),
        ("十亿", 1_000_000_000),
        ("3万", 30_000),
        ("1.5万", 15_000),
        ("1,024", 1024),
        ("-3", -3),
        ("几", None),
        ("十a", None),
        ("", None),
    ],
)
def test_numbers(text: str, number: float | None) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["1" * 5000, "亿" * 700, "9" * 400 + "万", "1" + "亿" * 190])
def test_a_number_nobody_means_is_none(text: str) -> None:
    """Python refuses to print the first two, and no float holds the others."""
    assert parse_number(text) is None


@given(st.text(max_size=60), st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2100, 1, 1)))
def test_nothing_makes_it_fail(text: str, now: datetime) -> None:
    aware = now.replace(tzinfo=SHANGHAI)
    find_moment(text, aware)
    resolve_range(text, now)
    parse_number(text)


@given(st.integers(min_value=0, max_value=99_999_999))
def test_chinese_numbers_round_trip(number: int) -> None:
    assert parse_number(spelled(number)) == number


def spelled(number: int) -> str:
    if number == 0:
        return "零"
    digits, text, zero = "零一二三四五六七八九", "", False
    for power, unit in (
        (10_000_000, "千"),
        (1_000_000, "百"),
        (100_000, "十"),
        (10_000, "万"),
        (1000, "千"),
        (100, "百"),
        (10, "十"),
        (1, ""),
    ):
        digit = number // power % 10
        if digit:
            text += ("零" if zero and text else "") + digits[digit] + ("" if unit == "万" else unit)
            zero = False
        else:
            zero = bool(text)
        if power == 10_000 and number >= 10_000:
            text, zero = text + "万", False if digit else zero and number % 10_000 > 0
    return text
