"""Reminders, one-shot and repeating: set, list, cancel, and firing what is due."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from config.clock import SHANGHAI, Clock
from config.columns import table_of
from config.database import Database, one_at_a_time
from config.ids import new_id
from config.logging import get_logger, log
from config.ports import Draft, Outbox
from tools import texts
from tools.base import Prepared, Tool, ToolContext, ToolFailed, ToolRefused, ToolResult, phrases
from tools.models import Reminder
from tools.prompt import quoted
from tools.times import iso, next_occurrence, parse_moment, show, to_ms

_REMINDER = table_of(Reminder)
_GRACE_MS = 5 * 60_000
_LATE_MS = 60_000
_SHOWN = 20
_logger = get_logger(__name__)
_NUMBER = {"type": "integer", "minimum": 1, "maximum": 999_999_999, "title": "编号", "description": "提醒编号"}

_WAITING = (
    _REMINDER.c.tenant_id == bindparam("tenant"),
    _REMINDER.c.owner_key == bindparam("owner"),
    _REMINDER.c.status == "active",
)
_LIST = select(_REMINDER).where(*_WAITING).order_by(_REMINDER.c.next_due_ms).limit(_SHOWN)
_COUNT = select(func.count()).select_from(_REMINDER).where(*_WAITING)


@dataclass(frozen=True, slots=True)
class NewReminder:
    """A reminder to be stored. ``repeat`` is none, daily, weekdays, weekly or monthly."""

    text: str
    due_ms: int
    repeat: str
    key: str


def add_reminder(connection: Connection, context: ToolContext, plan: NewReminder) -> int:
    """Store a reminder inside the caller's transaction, once per key; returns its number."""
    one_at_a_time(connection, f"reminder:{context.tenant_id}:{context.owner_key}")
    known = connection.execute(select(_REMINDER.c.number).where(_REMINDER.c.idempotency_key == plan.key)).scalar()
    if known is not None:
        return int(known)
    owner = (_REMINDER.c.tenant_id == context.tenant_id, _REMINDER.c.owner_key == context.owner_key)
    highest = select(func.coalesce(func.max(_REMINDER.c.number), 0)).where(*owner)
    number = int(connection.execute(highest).scalar_one()) + 1
    day = datetime.fromtimestamp(plan.due_ms / 1000, SHANGHAI).day
    connection.execute(
        _REMINDER.insert().values(
            id=new_id("rm"),
            tenant_id=context.tenant_id,
            account_id=context.account_id,
            conversation_id=context.conversation_id,
            user_id=context.user_id,
            owner_key=context.owner_key,
            number=number,
            text=plan.text,
            next_due_ms=plan.due_ms,
            repeat=f"monthly:{day}" if plan.repeat == "monthly" else plan.repeat,
            status="active",
            idempotency_key=plan.key,
            created_at_ms=context.clock.now_ms(),
        )
    )
    return number


def waiting_reminders(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """When each of these reminders is due next (UTC ms), by key; only those that still wait."""
    if not keys:
        return {}
    query = select(_REMINDER.c.idempotency_key, _REMINDER.c.next_due_ms)
    rows = connection.execute(query.where(_REMINDER.c.idempotency_key.in_(keys), _REMINDER.c.status == "active")).all()
    return {str(row.idempotency_key): int(row.next_due_ms) for row in rows}


def cancel_reminder(connection: Connection, key: str) -> bool:
    """Cancel the reminder of this key inside the caller's transaction. True when it still waited."""
    waiting = (_REMINDER.c.idempotency_key == key, _REMINDER.c.status == "active")
    return connection.execute(update(_REMINDER).where(*waiting).values(status="cancelled")).rowcount == 1


async def _prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    if not context.capability.can_push:
        raise ToolRefused("the channel cannot deliver a reminder", code="no_push", user_text=texts.NO_PUSH)
    moment = parse_moment(arguments["at"], context.clock)
    repeat = arguments.get("repeat", "none")
    shown = {"at": show(moment), "repeat": texts.REMINDER_REPEATS[repeat].removeprefix("起，") or texts.REMINDER_ONCE}
    return Prepared({**arguments, "at": iso(moment)}, {key: value for key, value in shown.items() if key in arguments})


async def _create(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    def commit(connection: Connection) -> ToolResult:
        moment = parse_moment(arguments["at"], context.clock, future=False)
        repeat = arguments.get("repeat", "none")
        number = add_reminder(connection, context, NewReminder(arguments["text"], to_ms(moment), repeat, context.call_key))
        said = {"number": number, "time": show(moment), "text": arguments["text"]}
        return ToolResult(texts.REMINDER_MADE.format(repeat=texts.REMINDER_REPEATS[repeat], **said), values=said)

    return ToolResult(commit=commit)


async def _list(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    mine = {"tenant": context.tenant_id, "owner": context.owner_key}

    def read(connection: Connection) -> tuple[Sequence[Any], int]:
        found = connection.execute(_LIST, mine).all()
        return found, len(found) if len(found) < _SHOWN else int(connection.execute(_COUNT, mine).scalar_one())

    rows, count = await context.database.read(read)
    if not rows:
        return ToolResult(texts.REMINDER_NONE, values={"count": 0})
    lines = "\n".join(
        texts.REMINDER_LINE.format(
            number=row.number,
            time=show(row.next_due_ms),
            repeat=texts.REMINDER_REPEATS.get(row.repeat.partition(":")[0], ""),
            text=row.text,
        )
        for row in rows
    )
    form = texts.REMINDER_LIST if count == len(rows) else texts.REMINDER_LIST_NEXT
    return ToolResult(form.format(count=count, shown=len(rows), lines=lines), values={"count": count})


async def _prepare_number(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    query = select(_REMINDER.c.text).where(
        *_own(context), _REMINDER.c.number == arguments["number"], _REMINDER.c.status == "active"
    )
    text = await context.database.read(lambda c: c.execute(query).scalar())
    if text is None:
        said = texts.REMINDER_MISSING.format(number=arguments["number"])
        raise ToolRefused("no such reminder", code="not_found", user_text=said)
    return Prepared(arguments, {"number": f"#{arguments['number']} {quoted(text)}"})


async def _cancel(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    def commit(connection: Connection) -> ToolResult:
        row = connection.execute(
            update(_REMINDER)
            .where(*_own(context), _REMINDER.c.number == arguments["number"], _REMINDER.c.status == "active")
            .values(status="cancelled")
            .returning(_REMINDER.c.text)
        ).first()
        if row is None:
            raise ToolFailed("no such reminder", user_text=texts.REMINDER_MISSING.format(number=arguments["number"]))
        return ToolResult(texts.REMINDER_CANCELLED.format(number=arguments["number"], text=row.text))

    return ToolResult(commit=commit)


def _own(context: ToolContext) -> tuple[Any, ...]:
    return (_REMINDER.c.tenant_id == context.tenant_id, _REMINDER.c.owner_key == context.owner_key)


async def fire_due(database: Database, outbox: Outbox, clock: Clock, *, limit: int = 64) -> list[str]:
    """Turn due reminders into outbox rows (key ``reminder:{id}:{due}``); returns the groups to ring for.

    Each occurrence is claimed by moving ``next_due_ms`` in the same transaction, so two processes fire it once (SES-12).
    A repeating one found more than 5 minutes late is skipped and moved on, never sent in a flood (SES-11). One that was to
    come a single time is told late rather than never: all that a person missed in one conversation as one message.
    """
    now = clock.now_ms()
    due = select(_REMINDER).where(_REMINDER.c.status == "active", _REMINDER.c.next_due_ms <= now)
    rows = await database.read(lambda c: c.execute(due.order_by(_REMINDER.c.next_due_ms).limit(limit)).all())
    missed: dict[str, list[Any]] = {}
    groups: list[str] = []
    for row in rows:
        if row.repeat == "none" and now - row.next_due_ms > _GRACE_MS:
            missed.setdefault(row.conversation_id, []).append(row)
            continue
        group = await database.write(lambda c, row=row: _fire(c, outbox, row, now))  # type: ignore[misc]
        groups += [group] if group is not None else []
    for late in missed.values():
        group = await database.write(lambda c, late=late: _fire_late(c, outbox, late, now))  # type: ignore[misc]
        groups += [group] if group is not None else []
    return groups


def _fire_late(connection: Connection, outbox: Outbox, rows: list[Any], now: int) -> str | None:
    """What one conversation missed while nobody was there to remind, in one message marked as late; None when another
    process told it."""
    mine = [row for row in rows if _claim(connection, row, {"status": "fired", "last_fired_ms": now})]
    for row in mine:
        log(_logger, "reminder.fired", reminder=row.id, late_ms=now - row.next_due_ms)
    if not mine:
        return None
    lines = [texts.REMINDER_MISSED_LINE.format(time=show(row.next_due_ms), text=row.text) for row in mine]
    one = texts.REMINDER_MISSED.format(time=show(mine[0].next_due_ms), text=mine[0].text)
    text = one if len(mine) == 1 else texts.REMINDERS_MISSED.format(count=len(mine), lines="\n".join(lines))
    return outbox.put(connection, _draft(mine[0], text))


def _claim(connection: Connection, row: Any, values: dict[str, Any]) -> bool:
    """Take this occurrence; exactly one process gets True (SES-12)."""
    same = (_REMINDER.c.id == row.id, _REMINDER.c.status == "active", _REMINDER.c.next_due_ms == row.next_due_ms)
    return connection.execute(update(_REMINDER).where(*same).values(**values)).rowcount == 1


def _fire(connection: Connection, outbox: Outbox, row: Any, now: int) -> str | None:
    overdue = now - row.next_due_ms > _GRACE_MS
    following = _following(row, now)
    values: dict[str, Any] = {"next_due_ms": row.next_due_ms if following is None else following}
    if following is None:
        values["status"] = "fired"
    if not overdue:
        values["last_fired_ms"] = now
    if not _claim(connection, row, values):
        return None
    log(_logger, "reminder.skipped" if overdue else "reminder.fired", reminder=row.id, late_ms=now - row.next_due_ms)
    if overdue:
        return None
    late_ms = now - row.next_due_ms
    text = (
        texts.REMINDER_LATE.format(minutes=late_ms // 60_000, text=row.text)
        if late_ms >= _LATE_MS
        else texts.REMINDER_DUE.format(text=row.text)
    )
    return outbox.put(connection, _draft(row, text))


def _following(row: Any, now: int) -> int | None:
    """When it comes again. A rhythm that nobody here can read (another version wrote it) ends with this occurrence: what is due
    is told, and the reminders behind it are not held up."""
    try:
        return next_occurrence(row.next_due_ms, row.repeat, now)
    except (ValueError, OverflowError) as error:
        log(_logger, "reminder.rhythm_unreadable", logging.ERROR, reminder=row.id, error=error)
        return None


def _draft(row: Any, text: str) -> Draft:
    return Draft(
        idempotency_key=f"reminder:{row.id}:{row.next_due_ms}",
        tenant_id=row.tenant_id,
        account_id=row.account_id,
        conversation_id=row.conversation_id,
        user_id=row.user_id,
        session_id=None,
        cause="reminder",
        cause_id=row.id,
        text=text,
        source="tool",
    )


reminder_create = Tool(
    name="reminder_create",
    title="设提醒",
    description="到点提醒我一件事，可以重复",
    parameters={
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 200, "title": "内容", "description": "提醒的内容"},
            "at": {"type": "string", "format": "date-time", "title": "提醒时间", "description": "提醒时间，ISO 格式"},
            "repeat": {
                "type": "string",
                "enum": ["none", "daily", "weekdays", "weekly", "monthly"],
                "title": "重复",
                "description": "none=不重复 daily=每天 weekdays=工作日 weekly=每周 monthly=每月",
            },
        },
        "required": ["text", "at"],
        "additionalProperties": False,
    },
    run=_create,
    prepare=_prepare,
    tool_class="operation",
    idempotent=True,
    confirm_template="{at} 提醒：{text}",
    labels={"text": "内容", "at": "提醒时间", "repeat": "重复"},
    examples=("明天下午三点提醒我开会", "每天早上九点提醒我写日报"),
    triggers=phrases(
        "提醒我、提醒一下我、设提醒、设个提醒、设 提醒、加 提醒、建 提醒、定 提醒、设 闹钟、设置 闹钟、"
        "设置 提醒、定 闹钟、^叫我、叫我一下、后叫我、钟叫我、点叫我、午叫我、上叫我、天叫我"
    ),
)
reminder_list = Tool(
    name="reminder_list",
    title="查提醒",
    description="列出我的提醒",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
    run=_list,
    examples=("我有哪些提醒",),
    triggers=phrases(
        "我的提醒、查 提醒、有哪些提醒、哪些提醒、什么提醒、啥提醒、看 提醒、提醒列表、提醒有哪些、几个提醒、所有提醒、^提醒$"
    ),
)
reminder_cancel = Tool(
    name="reminder_cancel",
    title="取消提醒",
    description="取消一个提醒",
    parameters={"type": "object", "properties": {"number": _NUMBER}, "required": ["number"], "additionalProperties": False},
    run=_cancel,
    prepare=_prepare_number,
    tool_class="operation",
    idempotent=True,
    confirm_template="取消提醒 {number}",
    labels={"number": "提醒"},
    examples=("取消提醒 2",),
    triggers=phrases(
        "取消提醒、取消 提醒、删除 提醒、清空提醒、删除提醒、删掉提醒、删 提醒、关掉提醒、停掉提醒、去掉提醒、"
        "提醒!我!大 取消、提醒!我!大 删、提醒!我!大 不要了、提醒!我!大 不用了、不用提醒、不用提醒我、"
        "不用再提醒、不要提醒我、别提醒我、别再提醒我、不想 收到提醒"
    ),
)
