"""To-dos: create, list, finish, delete, and the page behind a signed link."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, update

from config.clock import Clock
from config.columns import table_of
from config.database import Database, one_at_a_time
from config.ids import new_id
from tools import texts
from tools.base import Prepared, Tool, ToolContext, ToolFailed, ToolRefused, ToolResult, phrases
from tools.builtin.reminder import NewReminder, add_reminder, cancel_reminder, waiting_reminders
from tools.models import Todo
from tools.prompt import quoted
from tools.times import iso, parse_moment, show, to_ms

_TODO = table_of(Todo)
_LINK_MS = 7 * 86_400_000
_SHOWN = 20
_MINE = (_TODO.c.tenant_id == bindparam("tenant"), _TODO.c.owner_key == bindparam("owner"))


def _listing(wanted: ColumnElement[bool]) -> tuple[Select[Any], Select[Any]]:
    """A person's newest to-dos, and how many there are."""
    newest = select(_TODO).where(*_MINE, wanted).order_by(_TODO.c.number.desc()).limit(_SHOWN)
    return newest, select(func.count()).select_from(_TODO).where(*_MINE, wanted)


_LISTINGS = {
    "open": _listing(_TODO.c.status == "open"),
    "done": _listing(_TODO.c.status == "done"),
    "all": _listing(_TODO.c.status != "deleted"),
}
_TITLE = {"type": "string", "minLength": 1, "maxLength": 200, "title": "标题", "description": "要做的事"}
_NUMBER = {"type": "integer", "minimum": 1, "maximum": 999_999_999, "title": "编号", "description": "待办编号"}


async def _prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    final, shown = dict(arguments), {}
    for key, hour in (("due", 18), ("remind_at", 9)):
        if key in final:
            moment = parse_moment(final[key], context.clock, hour=hour)
            final[key], shown[key] = iso(moment), show(moment)
    if "remind_at" in final and not context.capability.can_push:
        raise ToolRefused("the channel cannot deliver a reminder", code="no_push", user_text=texts.NO_PUSH)
    return Prepared(final, shown)


async def _create(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(commit=lambda connection: _insert(connection, context, arguments))


def _insert(connection: Connection, context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    one_at_a_time(connection, f"todo:{context.tenant_id}:{context.owner_key}")
    known = connection.execute(select(_TODO).where(_TODO.c.idempotency_key == context.call_key)).first()
    if known is not None:
        text = texts.TODO_MADE.format(number=known.number, title=known.title, times="")
        return ToolResult(text, values={"number": known.number, "title": known.title})
    owner = (_TODO.c.tenant_id == context.tenant_id, _TODO.c.owner_key == context.owner_key)
    number = int(connection.execute(select(func.coalesce(func.max(_TODO.c.number), 0)).where(*owner)).scalar_one()) + 1
    now, times, due_ms = context.clock.now_ms(), "", None
    if "due" in arguments:
        due = parse_moment(arguments["due"], context.clock, future=False)
        due_ms, times = to_ms(due), texts.TODO_DUE.format(time=show(due))
    if "remind_at" in arguments:
        moment = parse_moment(arguments["remind_at"], context.clock, future=False)
        plan = NewReminder(arguments["title"], to_ms(moment), "none", _remind_key(context.call_key))
        add_reminder(connection, context, plan)
        times += texts.TODO_REMIND.format(time=show(moment))
    token = secrets.token_urlsafe(16) if context.public_url is not None else None
    connection.execute(
        _TODO.insert().values(
            id=new_id("td"),
            tenant_id=context.tenant_id,
            owner_key=context.owner_key,
            number=number,
            title=arguments["title"],
            detail=arguments.get("detail"),
            due_at_ms=due_ms,
            status="open",
            link_token_hash=None if token is None else _hash(token),
            link_expires_ms=None if token is None else now + _LINK_MS,
            idempotency_key=context.call_key,
            created_at_ms=now,
        )
    )
    summary = texts.TODO_MADE.format(number=number, title=arguments["title"], times=times)
    if token is not None:
        summary += texts.TODO_LINK.format(url=f"{context.public_url}/t/{token}")
    return ToolResult(summary, values={"number": number, "title": arguments["title"]})


async def _list(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    state = arguments.get("status", "open")
    newest, counted = _LISTINGS[state]
    mine = {"tenant": context.tenant_id, "owner": context.owner_key}

    def read(connection: Connection) -> tuple[Sequence[Any], int, dict[str, int]]:
        found = connection.execute(newest, mine).all()
        total = len(found) if len(found) < _SHOWN else int(connection.execute(counted, mine).scalar_one())
        return found, total, waiting_reminders(connection, [_remind_key(row.idempotency_key) for row in found])

    rows, count, reminders = await context.database.read(read)
    name = texts.TODO_STATES[state]
    if not rows:
        return ToolResult(texts.TODO_NONE.format(state=name), raw=[], values={"count": 0, "items": []})
    lines = "\n".join(_line(row, reminders.get(_remind_key(row.idempotency_key))) for row in rows)
    items = [{"number": row.number, "title": row.title, "status": row.status} for row in rows]
    form = texts.TODO_LIST if count == len(rows) else texts.TODO_LIST_NEWEST
    summary = form.format(state=name, count=count, shown=len(rows), lines=lines)
    return ToolResult(summary, raw=items, values={"count": count, "items": items})


def _line(row: Any, remind_ms: int | None) -> str:
    times = "" if row.due_at_ms is None else texts.TODO_DUE.format(time=show(row.due_at_ms))
    times += "" if remind_ms is None else texts.TODO_REMIND.format(time=show(remind_ms))
    return texts.TODO_LINE.format(number=row.number, title=row.title, due=times)


def _remind_key(todo_key: str) -> str:
    """The key of the reminder that was set together with a to-do."""
    return f"{todo_key}:remind"


async def _finish(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(commit=lambda c: _end(c, context, arguments["number"], "done", texts.TODO_FINISHED))


async def _delete(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(commit=lambda c: _end(c, context, arguments["number"], "deleted", texts.TODO_DELETED))


def _end(connection: Connection, context: ToolContext, number: int, status: str, said: str) -> ToolResult:
    own = (_TODO.c.tenant_id == context.tenant_id, _TODO.c.owner_key == context.owner_key, _TODO.c.number == number)
    row = connection.execute(select(_TODO).where(*own, _TODO.c.status != "deleted").with_for_update()).first()
    if row is None:
        raise ToolFailed("no such to-do", user_text=texts.TODO_MISSING.format(number=number))
    if row.status == status:
        return ToolResult(texts.TODO_ALREADY.format(number=number, title=row.title))
    values = {"status": status, "finished_at_ms": context.clock.now_ms()}
    connection.execute(update(_TODO).where(_TODO.c.id == row.id).values(**values))
    summary = said.format(number=number, title=row.title)
    if cancel_reminder(connection, _remind_key(row.idempotency_key)):
        summary += texts.TODO_REMINDER_ENDED
    return ToolResult(summary, values={"number": number, "title": row.title})


async def _prepare_number(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    """Show which to-do is meant; ask when there is none."""
    own = (_TODO.c.tenant_id == context.tenant_id, _TODO.c.owner_key == context.owner_key)
    query = select(_TODO.c.title).where(*own, _TODO.c.number == arguments["number"], _TODO.c.status != "deleted")
    title = await context.database.read(lambda c: c.execute(query).scalar())
    if title is None:
        text = texts.TODO_MISSING.format(number=arguments["number"])
        raise ToolRefused("no such to-do", code="not_found", user_text=text)
    return Prepared(arguments, {"number": f"#{arguments['number']} {quoted(title)}"})


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def todo_page(database: Database, clock: Clock, token: str) -> str | None:
    """The HTML page of the to-do a link's token opens, or None for a token that is unknown or past its time (N-24)."""
    if not 16 <= len(token) <= 64:
        return None
    query = select(_TODO).where(_TODO.c.link_token_hash == _hash(token), _TODO.c.status != "deleted")
    row = await database.read(lambda c: c.execute(query).first())
    if row is None or row.link_expires_ms is None or row.link_expires_ms <= clock.now_ms():
        return None
    return _html(row)


def _html(row: Any) -> str:
    state = texts.PAGE_DONE if row.status == "done" else texts.PAGE_OPEN
    facts = [(texts.PAGE_DUE, show(row.due_at_ms))] if row.due_at_ms is not None else []
    facts.append((texts.PAGE_MADE, show(row.created_at_ms)))
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    detail = f"<p>{escape(row.detail)}</p>" if row.detail else ""
    title = escape(texts.PAGE_TITLE.format(number=row.number))
    note = escape(texts.PAGE_NOTE.format(time=show(row.link_expires_ms)))
    heading = f"<small>{title} · {escape(state)}</small><h1>{escape(row.title)}</h1>"
    return _document(title, f"{heading}{detail}<dl>{lines}</dl><small>{note}</small>")


def gone_page() -> str:
    """The HTML page behind every link that opens nothing: it does not tell whether there ever was something."""
    title, words = escape(texts.PAGE_GONE_TITLE), escape(texts.PAGE_GONE)
    return _document(title, f"<h1>{title}</h1><p>{words}</p>")


def _document(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="zh-CN"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">'
        '<meta name="referrer" content="no-referrer"><style>'
        "body{font:16px/1.6 system-ui,sans-serif;max-width:36rem;margin:2rem auto;padding:0 1rem;color:#222}"
        "h1{font-size:1.25rem;overflow-wrap:anywhere}p{white-space:pre-wrap;overflow-wrap:anywhere}"
        "dt{color:#777;float:left;clear:left;width:4rem}dd{margin:0 0 0 4rem}small{color:#777}</style></head><body>"
        f"{body}</body></html>"
    )


todo_create = Tool(
    name="todo_create",
    title="建待办",
    description="建一个待办，可以带截止时间，也可以到点提醒",
    parameters={
        "type": "object",
        "properties": {
            "title": _TITLE,
            "detail": {"type": "string", "maxLength": 1000, "title": "说明", "description": "补充说明"},
            "due": {"type": "string", "format": "date-time", "title": "截止时间", "description": "截止时间，ISO 格式"},
            "remind_at": {"type": "string", "format": "date-time", "title": "提醒时间", "description": "提醒时间，ISO 格式"},
        },
        "required": ["title"],
        "additionalProperties": False,
    },
    run=_create,
    prepare=_prepare,
    tool_class="operation",
    idempotent=True,
    confirm_template="建待办：{title}",
    labels={"title": "标题", "detail": "说明", "due": "截止时间", "remind_at": "提醒时间"},
    examples=("把web-01的内存告警建一个待办，明天上午提醒我", "建个待办：周五前交周报"),
    triggers=phrases(
        "建待办、建一个待办、加个待办、新建待办、建 待办、加 待办、新增待办、添加待办、创建待办、记 待办、待办增加、"
        "待办加、add待办、^待办:、加到待办、加进待办、放进待办、记到待办、记一下!我、记个事、记件事"
    ),
)
todo_list = Tool(
    name="todo_list",
    title="查待办",
    description="列出我的待办",
    parameters={
        "type": "object",
        "properties": {
            "status": {
                "type": "string",
                "enum": ["open", "done", "all"],
                "description": "open=未完成/没完成的/没做完的/没做 done=已完成/做完的/完成的 all=全部/所有",
            }
        },
        "additionalProperties": False,
    },
    run=_list,
    labels={"status": "状态"},
    examples=("我的待办", "有哪些待办没做完"),
    triggers=phrases(
        "我的待办、查 待办、待办列表、待办清单、待办详情、待办list、哪些待办、待办有哪些、待办 有哪些、"
        "待办 哪些、什么待办、啥待办、看 待办、列出待办、所有待办、全部待办、完成的待办、做完的待办、没做的待办、"
        "没做完的待办、没完成的待办、未完成的待办、几个待办、多少待办、^待办$、待办有几、待办没做、今天要做什么、"
        "今天有什么事、今天有什么安排"
    ),
)
todo_finish = Tool(
    name="todo_finish",
    title="完成待办",
    description="把一个待办标为已完成",
    parameters={"type": "object", "properties": {"number": _NUMBER}, "required": ["number"], "additionalProperties": False},
    run=_finish,
    prepare=_prepare_number,
    tool_class="operation",
    idempotent=True,
    confirm_template="完成待办 {number}",
    labels={"number": "待办"},
    examples=("待办3做完了", "完成待办 3"),
    triggers=phrases(
        "完成待办、待办做完、做完了待办、待办 完成、待办 做完、待办 做好、待办 搞定、待办 办完、待办 弄完、"
        "待办 done、勾掉待办、搞定待办、做好待办、办完待办、^完成!的!了"
    ),
)
todo_delete = Tool(
    name="todo_delete",
    title="删除待办",
    description="删除一个待办",
    parameters={"type": "object", "properties": {"number": _NUMBER}, "required": ["number"], "additionalProperties": False},
    run=_delete,
    prepare=_prepare_number,
    tool_class="operation",
    idempotent=True,
    confirm_template="删除待办 {number}",
    labels={"number": "待办"},
    examples=("删除待办 3",),
    triggers=phrases(
        "删除待办、删除 待办、删掉 待办、清空待办、删掉待办、删待办、去掉待办、移除待办、取消待办、待办 删、"
        "待办 不要了、待办 去掉、待办 取消、待办 作废"
    ),
)
