"""To-dos, reminders, messages, pages: a person's own things, on SQLite and the outbox."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from config.columns import table_of
from config.schema import (
    Robot,
    ToolSettings,
)
from memory.keys import conversation_id
from tests.integration.tools.office import PULL, PUSH, WHERE, Office
from tools.builtin.reminder import fire_due
from tools.builtin.todo import todo_page
from tools.builtin.wiki_page import wiki_page_write
from tools.models import Reminder, Todo

_TODO, _REMINDER = table_of(Todo), table_of(Reminder)


async def test_a_todo_with_its_page(office: Office) -> None:
    """S001-46 S001-42 N-24: made once, with a reminder and a 128-bit link that is the owner's and expires."""
    prompt = (await office.call("todo_create", title="web-01的内存告警", remind_at="2023-11-16T09:00:00+08:00")).prompt
    assert prompt is not None
    assert prompt.text.splitlines()[2:4] == ["标题：“web-01的内存告警”", "提醒时间：2023-11-16 09:00（周四）"]
    said = await office.do("todo_create", title="web-01的<b>内存</b>告警", remind_at="2023-11-16T09:00:00+08:00")
    first, link = said.split("\n查看：")
    assert first == "已建待办 #1：web-01的<b>内存</b>告警，2023-11-16 09:00（周四）提醒你"
    token = link.removeprefix("https://bot.example.com/t/")
    assert len(token) == 22
    page = await todo_page(office.database, office.clock, token)
    assert page is not None
    assert "web-01的&lt;b&gt;内存&lt;/b&gt;告警" in page
    assert "<b>" not in page
    stored = await office.database.read(lambda c: c.execute(select(_TODO)).one())
    assert token not in str(stored)
    assert await todo_page(office.database, office.clock, token[:-1] + "x") is None
    office.clock.advance(7 * 86_400)
    assert await todo_page(office.database, office.clock, token) is None


async def test_no_link_without_a_public_url(tmp_path: Path, database: Any) -> None:
    """N-24: none is offered while public_url is unset."""
    office = Office(tmp_path, database, ToolSettings(), public_url=None)
    assert await office.do("todo_create", title="周报") == "已建待办 #1：周报"


async def test_todos_are_their_owners(office: Office) -> None:
    """N-24: list, finish, delete; another person sees and touches nothing."""
    await office.do("todo_create", title="周报", due="2023-11-17")
    assert (await office.call("todo_list")).summary == "未完成的待办共 1 项：\n#1 周报，截止 2023-11-17 18:00（周五）"
    assert (await office.call("todo_list", office.context("lisi"))).summary == "没有未完成的待办。"
    assert (await office.call("todo_finish", office.context("lisi"), number=1)).status == "denied"
    assert await office.do("todo_finish", number=1) == "待办 #1 已完成：周报"
    assert (await office.call("todo_list", status="done")).summary.startswith("已完成的待办共 1 项")
    assert await office.do("todo_delete", number=1) == "待办 #1 已删除：周报"
    assert (await office.call("todo_delete", number=1)).summary == "没有编号为 1 的待办。"


async def test_a_long_list_says_how_long_it_is(office: Office) -> None:
    """A thousand open to-dos are not told as twenty."""
    for number in range(1, 23):
        await office.do("todo_create", title=f"第{number}件")
        await office.do("reminder_create", text=f"第{number}件", at=f"2023-11-16T09:{number:02}")
    todos = await office.call("todo_list")
    assert todos.summary.startswith("未完成的待办共 22 项，最近的 20 项：\n#22 第22件\n")
    assert todos.summary.endswith("#3 第3件")
    reminders = await office.call("reminder_list")
    assert reminders.summary.startswith("提醒共 22 条，最先到的 20 条：\n#1 2023-11-16 09:01（周四） 第1件\n")


async def test_a_rhythm_nobody_can_read_holds_no_reminder_up(office: Office) -> None:
    """What is due is told once, and so are the ones behind it."""
    for name in ("甲", "乙"):
        await office.do("reminder_create", text=name, at="2023-11-16T09:00", repeat="monthly")
    broken = update(_REMINDER).where(_REMINDER.c.text == "甲").values(repeat="monthly:x")
    await office.database.write(lambda c: c.execute(broken))
    due_ms = await office.database.read(lambda c: c.execute(select(_REMINDER.c.next_due_ms)).scalars().first())
    assert due_ms is not None
    office.clock.advance((due_ms - office.clock.now_ms()) / 1000)
    assert len(await fire_due(office.database, office.outbox, office.clock)) == 2
    states = select(_REMINDER.c.status).order_by(_REMINDER.c.number)
    found = await office.database.read(lambda c: c.execute(states).scalars().all())
    assert found == ["fired", "active"]


async def test_a_reminder_fires_once(office: Office) -> None:
    """SES-12: two processes, one occurrence; keyed reminder:{id}:{due}."""
    assert (
        await office.do("reminder_create", text="开会", at="2023-11-15T10:00")
        == "已设提醒 #1：2023-11-15 10:00（周三）提醒你“开会”"
    )
    assert await fire_due(office.database, office.outbox, office.clock) == []
    row = await office.database.read(lambda c: c.execute(select(_REMINDER)).one())
    office.clock.advance((row.next_due_ms - office.clock.now_ms()) / 1000)
    fired = [await fire_due(office.database, office.outbox, office.clock) for _ in range(3)]
    assert [len(groups) for groups in fired] == [1, 0, 0]
    message = (await office.sent())[-1]
    assert (message["idempotency_key"], message["payload"]["text"], message["cause"]) == (
        f"reminder:{row.id}:{row.next_due_ms}:0",
        "提醒：开会",
        "reminder",
    )


async def test_overdue_reminders_do_not_flood(office: Office) -> None:
    """SES-11: two days late: nothing is sent, a repeating one moves on, a late one within five minutes is marked."""
    await office.do("reminder_create", text="日报", at="2023-11-15T10:00", repeat="daily")
    await office.do("reminder_create", text="周会", at="2023-11-15T10:00", repeat="weekly")
    before = len(await office.sent())
    office.clock.advance(3 * 86_400)
    assert await fire_due(office.database, office.outbox, office.clock) == []
    rows = await office.database.read(lambda c: c.execute(select(_REMINDER).order_by(_REMINDER.c.number)).all())
    assert [row.status for row in rows] == ["active", "active"]
    assert all(row.next_due_ms > office.clock.now_ms() for row in rows)
    assert len(await office.sent()) == before
    office.clock.advance((rows[0].next_due_ms - office.clock.now_ms()) / 1000 + 180)
    assert len(await fire_due(office.database, office.outbox, office.clock)) == 1
    assert (await office.sent())[-1]["payload"]["text"] == "提醒（晚了 3 分钟）：日报"


async def test_a_single_reminder_is_told_late_rather_than_never(office: Office) -> None:
    """The product was down when it was due: told once, marked as late; what was missed in one chat is one message."""
    await office.do("reminder_create", text="开会", at="2023-11-15T10:00")
    office.clock.advance(3 * 86_400)
    fired = [await fire_due(office.database, office.outbox, office.clock) for _ in range(3)]
    assert [len(groups) for groups in fired] == [1, 0, 0]
    assert (await office.sent())[-1]["payload"]["text"] == "提醒（原定 2023-11-15 10:00（周三），系统停了一阵，来晚了）：开会"
    for text, at in (("交表", "2023-11-19T10:00"), ("取件", "2023-11-19T11:00")):
        await office.do("reminder_create", text=text, at=at)
    office.clock.advance(3 * 86_400)
    before = len(await office.sent())
    assert len(await fire_due(office.database, office.outbox, office.clock)) == 1
    assert len(await office.sent()) == before + 1
    assert (await office.sent())[-1]["payload"]["text"] == (
        "系统停了一阵，有 2 条提醒来晚了：\n· 2023-11-19 10:00（周日） 交表\n· 2023-11-19 11:00（周日） 取件"
    )
    rows = await office.database.read(lambda c: c.execute(select(_REMINDER)).all())
    assert {row.status for row in rows} == {"fired"}


async def test_a_todo_shows_its_reminder_and_takes_it_along(office: Office) -> None:
    """The list tells the reminder that was set with a to-do; it ends with it."""
    await office.do("todo_create", title="周报", remind_at="2023-11-16T09:00")
    await office.do("todo_create", title="买水")
    assert (await office.call("todo_list")).summary == ("未完成的待办共 2 项：\n#2 买水\n#1 周报，2023-11-16 09:00（周四）提醒你")
    assert await office.do("todo_finish", number=1) == "待办 #1 已完成：周报。它的提醒也取消了"
    assert await office.do("todo_delete", number=2) == "待办 #2 已删除：买水"
    assert (await office.call("reminder_list")).summary == "没有等着的提醒。"


async def test_a_reminder_that_cannot_arrive_is_refused(office: Office) -> None:
    """N-26: asked of the channel when it is proposed, not when it is due."""
    for name, arguments in (
        ("reminder_create", {"text": "x", "at": "2023-11-16T10:00"}),
        ("todo_create", {"title": "x", "remind_at": "2023-11-16"}),
    ):
        outcome = await office.call(name, office.context(capability=PULL), **arguments)
        assert (outcome.status, outcome.summary[:13]) == ("denied", "这个账号不能主动发消息，到")
    assert (await office.call("todo_create", office.context(capability=PULL), title="x")).status == "awaiting_confirmation"


async def test_times_that_make_no_sense_are_asked_back(office: Office) -> None:
    """S001-54: not run, asked."""
    past = await office.call("reminder_create", text="x", at="2020-01-01T10:00")
    assert (past.asks, past.summary) == (True, "“2020-01-01 10:00（周三）”已经过去了，请换一个以后的时间。")
    assert (await office.call("reminder_create", text="x", at="soon")).status == "invalid"


async def test_customers_and_strangers(office: Office) -> None:
    """N-12 N-11 S001-55: customers are denied by default, roles are exact, an untrusted account has no tools."""
    customer = office.context("oOpen", customer=True)
    assert office.tools.registry.offered(customer) == []
    assert (await office.call("todo_create", customer, title="x")).status == "denied"
    names = {tool.name for tool in office.tools.registry.offered(office.context("lisi"))}
    assert "todo_create" in names
    assert "server_status" not in names
    assert (await office.call("server_status", office.context("lisi"))).summary == "你没有使用「查服务器状态」的权限，没有执行。"
    plain = office.context(capability=replace(PUSH, trusted=False))
    assert office.tools.registry.offered(plain) == []
    assert (await office.call("todo_list", plain)).summary == "这个账号没有开启加密，不能使用工具。"


async def test_invented_tools_and_fields_run_nothing(office: Office) -> None:
    """S001-50 S001-54 S11: the nearest name is offered, nothing runs."""
    assert (await office.call("todo_creat", title="x")).summary == "没有“todo_creat”这个工具，是不是“todo_create”？"
    outcome = await office.call("todo_create", title="x", region="cn-north")
    assert outcome.status == "invalid"
    assert "没有“region”这个参数" in outcome.summary
    assert (await office.call("todo_list", status="urgent")).summary == (
        "「查待办」没有执行，参数不对：“status”只能是：open、done、all。请补充或更正。"
    )
    assert await office.database.read(lambda c: c.execute(select(_TODO)).all()) == []


async def test_the_same_write_twice_is_one_action(office: Office) -> None:
    """A model that calls a write twice in one turn gets one action and one prompt."""
    context = office.context()
    first = await office.call("todo_create", context, title="x")
    second = await office.call("todo_create", context, title="x")
    assert first.prompt is not None
    assert (second.status, second.prompt, second.writes) == ("awaiting_confirmation", None, ())


async def test_send_message(office: Office) -> None:
    """Two 张三 → ask; one 李四 → the prompt shows who; sent through the outbox to exactly them."""
    several = await office.call("send_message", to="张三", text="会议改到三点")
    assert several.summary == "有 2 位张三，是哪一位？\n1. 张三（zhangsan，研发）\n2. 张三（zhangsan2，市场）\n回复 选 1 / 选 2"
    assert (several.status, several.asks) == ("invalid", True)
    assert (await office.call("send_message", to="王五", text="x")).summary == "通讯录里没有找到“王五”，请告诉我完整姓名或账号。"
    prompt = (await office.call("send_message", to="李四", text="会议改到三点")).prompt
    assert prompt is not None
    assert "收件人：李四（lisi）" in prompt.text
    assert await office.do("send_message", to="李四", text="会议改到三点") == "已交给系统发给李四（lisi）。"
    message = next(row for row in await office.sent() if row["target"])
    assert (message["target"], message["payload"]["text"]) == ({"users": ["lisi"]}, "张三（zhangsan） 让我转告你：\n会议改到三点")
    assert message["conversation_id"] == conversation_id("acme", "wecom-main", "single", "lisi")


async def test_notify_group(tmp_path: Path, database: Any) -> None:
    """The robot is an outbox target."""
    robot = Robot(id="ops", title="运维群", webhook=SecretStr("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k"))
    office = Office(tmp_path, database, ToolSettings(robots=(robot,)))
    assert await office.do("notify_group", robot="ops", text="今晚维护") == "已交给「运维群」发送。"
    message = (await office.sent())[0]
    assert (message["target"], message["payload"]["text"]) == ({"webhook": "ops"}, "今晚维护")
    assert message["conversation_id"] != WHERE


async def test_wiki_pages(office: Office, tmp_path: Path) -> None:
    """S001-46: pages of the local folder; no title leaves it."""
    assert await office.do("wiki_page_write", title="上线流程", content="先备份", mode="create") == "已新建页面《上线流程》。"
    assert (
        await office.call("wiki_page_write", title="上线流程", content="x", mode="create")
    ).summary == "知识库里已有《上线流程》，要改请说更新。"
    assert (
        await office.do("wiki_page_write", title="上线流程", content="再发布", mode="append") == "已在页面《上线流程》末尾追加。"
    )
    assert (await office.call("wiki_page_read", title="上线流程")).summary == "《上线流程》：\n先备份\n\n再发布\n"
    assert (await office.call("wiki_page_read", title="上线流")).summary == "知识库里没有《上线流》，相近的有：上线流程。"
    assert (await office.call("wiki_page_list")).summary == "知识库共 1 页：上线流程"
    (tmp_path / "wiki" / "acme" / "link.md").symlink_to("/etc/passwd")
    for title in ("../x", "a/b", "..", ".hidden", "a\\b", "a\x00b", "/etc/passwd", "link"):
        assert (await office.call("wiki_page_read", title=title)).status in ("denied", "failed", "invalid"), title
        assert (await office.call("wiki_page_write", title=title, content="x", mode="create")).status in ("denied", "invalid"), (
            title
        )


@pytest.mark.parametrize(
    ("before", "mode", "content", "found"),
    [
        (None, "create", "新", "not_done"),
        ("新", "create", "新", "done"),
        ("旧\n新", "update", "新", "not_done"),
        ("新", "append", "新", "not_done"),
        ("旧\n\n新", "append", "新", "done"),
        ("新\n\n新", "append", "新", "unknown"),
    ],
)
async def test_a_page_tells_whether_it_was_written(
    office: Office, tmp_path: Path, before: str | None, mode: str, content: str, found: str
) -> None:
    """N-27: after a crash the page itself is asked; words that stood there before are no proof."""
    folder = tmp_path / "wiki" / "acme"
    folder.mkdir(parents=True)
    if before is not None:
        (folder / "页.md").write_text(before + "\n", "utf-8")
    check = wiki_page_write.check
    assert check is not None
    assert await check(office.context(), {"title": "页", "mode": mode, "content": content}) == found
