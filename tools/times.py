"""Moments in tool arguments: ISO text in, epoch milliseconds out, and how people read them."""

from __future__ import annotations

import calendar
from datetime import datetime, timedelta

from config.clock import SHANGHAI, Clock
from tools import texts
from tools.base import AskPerson


def parse_moment(value: str, clock: Clock, *, hour: int = 9, future: bool = True) -> datetime:
    """The moment an ISO text names, in Asia/Shanghai where it names no zone; a bare day means ``hour`` o'clock.

    Raises AskPerson for text that is no moment, and (``future``) for one that has passed.
    """
    try:
        found = datetime.fromisoformat(value.strip())
    except ValueError:
        raise AskPerson("not a moment", user_text=texts.TIME_BAD.format(value=value[:40])) from None
    if len(value.strip()) <= 10:
        found = found.replace(hour=hour)
    found = found.astimezone(SHANGHAI) if found.tzinfo is not None else found.replace(tzinfo=SHANGHAI)
    if future and to_ms(found) <= clock.now_ms():
        raise AskPerson("the moment has passed", user_text=texts.TIME_PAST.format(value=show(found)))
    return found


def to_ms(moment: datetime) -> int:
    """UTC epoch milliseconds."""
    return round(moment.timestamp() * 1000)


def iso(moment: datetime) -> str:
    """The one spelling of a moment in stored arguments."""
    return moment.astimezone(SHANGHAI).isoformat(timespec="seconds")


def show(moment: datetime | int, *, year: bool = True) -> str:
    """2026-12-01 09:00（周二）."""
    local = datetime.fromtimestamp(moment / 1000, SHANGHAI) if isinstance(moment, int) else moment.astimezone(SHANGHAI)
    day = f"{local:%Y-%m-%d %H:%M}" if year else f"{local:%m-%d %H:%M}"
    return day + texts.ON_WEEKDAY.format(weekday=texts.WEEKDAYS[local.weekday()])


def next_occurrence(due_ms: int, repeat: str, after_ms: int) -> int | None:
    """The first occurrence after ``after_ms`` of a plan due at ``due_ms``; None for one that does not repeat.

    ``monthly:31`` keeps its day through shorter months.
    """
    if repeat == "none":
        return None
    moment = datetime.fromtimestamp(due_ms / 1000, SHANGHAI)
    days = max(0, (after_ms - due_ms) // 86_400_000 - 31)
    if repeat in ("daily", "weekdays") and days:
        moment += timedelta(days=days)
    elif repeat == "weekly" and days:
        moment += timedelta(days=days // 7 * 7)
    while to_ms(moment) <= after_ms or to_ms(moment) <= due_ms:
        moment = _step(moment, repeat)
    return to_ms(moment)


def _step(moment: datetime, repeat: str) -> datetime:
    if repeat == "weekly":
        return moment + timedelta(days=7)
    if repeat.startswith("monthly"):
        _, _, anchor = repeat.partition(":")
        year, month = (moment.year, moment.month + 1) if moment.month < 12 else (moment.year + 1, 1)
        day = min(int(anchor or moment.day), calendar.monthrange(year, month)[1])
        return moment.replace(year=year, month=month, day=day)
    moment += timedelta(days=1)
    while repeat == "weekdays" and moment.weekday() >= 5:
        moment += timedelta(days=1)
    return moment
