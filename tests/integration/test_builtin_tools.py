"""The builtin tools for real: SQLite, the outbox, files, programs, HTTP on loopback."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr
from sqlalchemy import select
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from agent.protocol import Capability
from config.clock import FixedClock
from config.columns import table_of
from config.database import open_database
from config.schema import (
    HttpTool,
    Limits,
    Listen,
    LogSource,
    Person,
    Robot,
    ScriptArgument,
    ScriptPreset,
    Settings,
    Tenant,
    ToolSettings,
)
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from memory.keys import conversation_id
from tests.fakes.channel import FakeChannel, mp_account, wecom_account
from tools.assembly import ToolSet, open_tools
from tools.base import ToolContext
from tools.builtin.reminder import fire_due
from tools.builtin.server_status import Usage, status_sentence
from tools.builtin.todo import todo_page
from tools.context import Place
from tools.models import Reminder, Todo
from tools.ports import Member, NoPlatform
from tools.registry import CallOutcome

_TODO, _REMINDER = table_of(Todo), table_of(Reminder)
PUBLIC_URL = "https://bot.example.com"
PUSH = Capability(can_push=True, can_card=False, can_menu=False)
PULL = Capability(can_push=False, can_card=False, can_menu=False)
WHERE = conversation_id("acme", "wecom-main", "single", "zhangsan")


class FewColleagues(NoPlatform):
    """A directory with two 张三."""

    people = (Member("zhangsan", "张三", "研发"), Member("zhangsan2", "张三", "市场"), Member("lisi", "李四"))

    async def member(self, account_id: str, user_id: str) -> Member | None:
        """By exact id."""
        return next((one for one in self.people if one.user_id == user_id), None)

    async def members_named(self, account_id: str, name: str) -> Sequence[Member]:
        """By exact name."""
        return [one for one in self.people if one.name == name]


class Office:
    """One deployment with settings of its own."""

    def __init__(
        self, folder: Path, database: Any, tools: ToolSettings, public_url: str | None = "https://bot.example.com"
    ) -> None:
        tenant = Tenant(
            id="acme",
            accounts=(wecom_account(), mp_account()),
            roles={"server_access": (Person(account="wecom-main", user="zhangsan"),)},
            tools=tools,
        )
        self.settings = Settings(data_dir=folder, tenants=(tenant,), http=Listen(public_url=public_url))
        self.database, self.clock = database, FixedClock()
        channels: dict[str, Any] = {
            "wecom-main": FakeChannel(limit=2000),
            "mp-main": FakeChannel(account=mp_account(), limit=2000),
        }
        self.outbox = SqlOutbox(channels, self.clock, Limits())
        self.tools: ToolSet = open_tools(self.settings, self.clock, database, self.outbox, lambda _: PUSH, FewColleagues())

    def context(self, user: str = "zhangsan", capability: Capability = PUSH, *, customer: bool = False) -> ToolContext:
        """This person in their own chat."""
        account = "mp-main" if customer else "wecom-main"
        place = Place(
            "acme",
            account,
            conversation_id("acme", account, "single", user),
            "s1",
            user,
            "open_id" if customer else "wecom_userid",
        )
        return self.tools.contexts.of(place, capability=capability)

    async def call(self, name: str, context: ToolContext | None = None, **arguments: Any) -> CallOutcome:
        """One call as a model makes it."""
        context = replace(context or self.context(), call_key="")
        return await self.tools.registry.call(context, name, arguments)

    async def do(self, name: str, **arguments: Any) -> str:
        """Propose, confirm, execute; what came of it."""
        outcome = await self.call(name, **arguments)
        if outcome.prompt is None:
            return outcome.summary
        await self.database.write(lambda c: [write(c) for write in outcome.writes])
        self.clock.advance(1)
        return await self.tools.executor.decide_here(outcome.prompt.action_id, "zhangsan", agreed=True)

    async def sent(self) -> list[dict[str, Any]]:
        """Every outbox row."""
        return [
            dict(row) for row in await self.database.read(lambda c: c.execute(select(ROWS).order_by(ROWS.c.seq)).mappings().all())
        ]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Any]:
    """SQLite with every table."""
    opened = open_database(f"sqlite:///{tmp_path / 'yizhan.db'}")
    await opened.write(lambda c: SQLModel.metadata.create_all(c))
    yield opened
    await opened.close()


@pytest.fixture
def office(tmp_path: Path, database: Any) -> Office:
    """Nothing configured but the accounts."""
    return Office(tmp_path, database, ToolSettings())


async def test_a_todo_with_its_page(office: Office) -> None:
    """S001-46 S001-42 N-24: made once, with a reminder and a 128-bit link that is the owner's and expires."""
    prompt = (await office.call("todo_create", title="web-01的内存告警", remind_at="2023-11-16T09:00:00+08:00")).prompt
    assert prompt is not None
    assert prompt.text.splitlines()[2:4] == ["标题：“web-01的内存告警”", "提醒时间：2023-11-16 09:00（周四）"]
    said = await office.do("todo_create", title="web-01的<b>内存</b>告警", remind_at="2023-11-16T09:00:00+08:00")
    first, link = said.split("\n查看：")
    assert first == "已建待办 #1：web-01的<b>内存</b>告警，2023-11-16 09:00（周四） 提醒你"
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
    await office.do("reminder_create", text="开会", at="2023-11-15T10:00")
    before = len(await office.sent())
    office.clock.advance(3 * 86_400)
    assert await fire_due(office.database, office.outbox, office.clock) == []
    rows = await office.database.read(lambda c: c.execute(select(_REMINDER).order_by(_REMINDER.c.number)).all())
    assert [row.status for row in rows] == ["active", "skipped: overdue"]
    assert rows[0].next_due_ms > office.clock.now_ms()
    assert len(await office.sent()) == before
    office.clock.advance((rows[0].next_due_ms - office.clock.now_ms()) / 1000 + 180)
    assert len(await fire_due(office.database, office.outbox, office.clock)) == 1
    assert (await office.sent())[-1]["payload"]["text"] == "提醒（晚了 3 分钟）：日报"


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
        "「查待办」没有执行，参数不对：“status”只能是：open、done、all（可选：open、done、all）。请补充或更正。"
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


def preset(**changes: Any) -> ScriptPreset:
    """A program that prints its arguments."""
    code = "import sys; print(sys.argv[1:])"
    values = {"id": "show", "description": "显示参数", "argv": (sys.executable, "-c", code, "{word}", "x={word}")}
    return ScriptPreset(**{**values, "arguments": {"word": ScriptArgument(pattern=r"[\s\S]*")}, "read_only": True, **changes})


async def test_scripts(tmp_path: Path, database: Any) -> None:
    """S001-47 N-20: an argv, never a shell; read-only ones run at once, others ask; arguments are typed."""
    office = Office(tmp_path, database, ToolSettings(scripts=(preset(), preset(id="change", read_only=False, risk="high"))))
    said = (await office.call("run_script", preset="show", arguments={"word": "a; touch /tmp/x $(id)"})).summary
    assert said == "脚本「show」在 local 上运行完成。输出：\n['a; touch /tmp/x $(id)', 'x=a; touch /tmp/x $(id)']"
    change = await office.call("run_script", preset="change", arguments={"word": "a"})
    assert change.prompt is not None
    assert "高风险操作" in change.prompt.text
    for bad in ("-rf", "--help", "a\nb", "a\u202eb"):
        outcome = await office.call("run_script", preset="show", arguments={"word": bad})
        assert outcome.summary == "参数“word”不能以减号开头，也不能有控制字符。"
    assert (await office.call("run_script", preset="show", arguments={"word": "a", "more": 1})).status == "invalid"
    assert (await office.call("run_script", preset="show")).status == "invalid"
    assert (await office.call("run_script", preset="rm")).status == "invalid"
    assert (await office.call("run_script", office.context("lisi"), preset="show", arguments={"word": "a"})).status == "denied"


async def test_a_script_that_hangs_is_killed(tmp_path: Path, database: Any) -> None:
    """Its time is over, and so is everything it started."""
    slow = preset(argv=(sys.executable, "-c", "import time; time.sleep(60)"), arguments={}, timeout_s=0.3)
    office = Office(tmp_path, database, ToolSettings(scripts=(slow,)))
    outcome = await office.call("run_script", preset="show")
    assert (outcome.status, outcome.summary) == ("failed", "「运行脚本 show」没有成功：超时没有结果")


async def test_log_query(tmp_path: Path, database: Any) -> None:
    """The newest lines; secrets in them are masked; the model gets a sentence, the audit the lines."""
    path = tmp_path / "app.log"
    path.write_text("".join(f"line {n}\n" for n in range(300)) + "ERROR token=abcdef123456 failed\n", "utf-8")
    office = Office(tmp_path, database, ToolSettings(logs=(LogSource(id="app", description="应用", path=path),)))
    outcome = await office.call("log_query", source="app", keyword="error", tail=100)
    assert outcome.summary == "日志「app」最近 100 行中有 1 行包含“error”。最近的：\nERROR token=*** failed"


async def test_server_status(office: Office) -> None:
    """S001-45 S001-52: one unambiguous sentence."""
    assert status_sentence("A", Usage(92, 85, 90)) == (
        "服务器A的CPU使用率为92%，内存使用率为85%，磁盘使用率为90%，均超过80%告警阈值。"
    )
    assert status_sentence("A", Usage(92, 85, 40)) == (
        "服务器A的CPU使用率为92%，内存使用率为85%，磁盘使用率为40%，其中CPU、内存超过80%告警阈值。"
    )
    assert status_sentence("A", Usage(10, 20, 30)).endswith("均未超过80%告警阈值。")
    assert "CPU使用率为" in (await office.call("server_status")).summary


class OrderSystem:
    """An internal system on loopback that counts what it was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []
        self.fail_next: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers with what was asked, or misbehaves as told."""
        body = await request.json() if request.can_read_body else None
        self.seen.append((request.method, request.raw_path, dict(request.headers), body))
        how = self.fail_next.pop(0) if self.fail_next else ""
        if how == "500":
            return web.Response(status=500, text="<html>secret stack trace</html>")
        if how == "404":
            return web.Response(status=404, text="no")
        if how == "hang up" and request.transport is not None:
            request.transport.close()
        if how == "redirect":
            raise web.HTTPFound("http://169.254.169.254/latest/meta-data")
        return web.json_response({"id": "WO-1", "status": "open", "title": (body or {}).get("title"), "secret_field": "x"})


@pytest.fixture
async def orders() -> AsyncIterator[OrderSystem]:
    """The system, listening."""
    system = OrderSystem()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", system.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    system.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield system
    await runner.cleanup()


def order_tools(url: str, **changes: Any) -> ToolSettings:
    """A read and a write of the order system."""
    read = HttpTool.model_validate(
        {
            "name": "order_status",
            "description": "查订单",
            "url": url + "/orders/{order}?lang={lang}",
            "headers": {"X-Key": "s3cr3t-key"},
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string"}, "lang": {"type": "string"}},
                "required": ["order"],
            },
            "summary_template": "订单 {order}：{status}，{missing}，{id.__class__}",
        }
    )
    write = HttpTool.model_validate(
        {
            "name": "order_create",
            "description": "建工单",
            "class": "operation",
            "method": "POST",
            "url": url + "/orders",
            "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
            "summary_template": "已建工单 {id}：{title}",
            "timeout_s": 2,
            **changes,
        }
    )
    return ToolSettings(http=(read, write))


async def test_http_tools(tmp_path: Path, database: Any, orders: OrderSystem) -> None:
    """S001-45 S001-53 N-20: values are single encoded segments, headers come from secrets, the model sees the template only."""
    office = Office(tmp_path, database, order_tools(orders.url))
    outcome = await office.call("order_status", order="../a/b?x=1#y")
    assert outcome.summary == "订单 ../a/b?x=1#y：open，未提供，未提供"
    method, path, headers, _ = orders.seen[0]
    assert (method, path, headers["X-Key"]) == ("GET", "/orders/..%2Fa%2Fb%3Fx%3D1%23y", "s3cr3t-key")
    assert "secret_field" not in outcome.summary
    await office.call("order_status", order="1", lang="zh&admin=1")
    assert orders.seen[1][1] == "/orders/1?lang=zh%26admin%3D1"
    assert (await office.call("order_status", order="..")).status == "failed"
    assert len(orders.seen) == 2


async def test_an_http_write_asks_first_and_carries_its_key(tmp_path: Path, database: Any, orders: OrderSystem) -> None:
    """S001-48: confirmed, then once, with the idempotency key."""
    office = Office(tmp_path, database, order_tools(orders.url, idempotency_header="Idempotency-Key"))
    assert await office.do("order_create", title="打印机") == "已建工单 WO-1：打印机"
    method, path, headers, body = orders.seen[0]
    assert (method, path, body) == ("POST", "/orders", {"title": "打印机"})
    assert headers["Idempotency-Key"].startswith("act:pa")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (["404"], "没有成功：建工单：打印机\n原因：对方系统返回错误（HTTP 404）。"),
        (["500"], "执行中断，结果不明：建工单：打印机\n我不会自动重做。请先核实，确实没有执行再重新告诉我。"),
        (["hang up"], "执行中断，结果不明：建工单：打印机\n我不会自动重做。请先核实，确实没有执行再重新告诉我。"),
        (["redirect"], "执行中断，结果不明：建工单：打印机\n我不会自动重做。请先核实，确实没有执行再重新告诉我。"),
    ],
)
async def test_an_http_write_that_ends_unclear(
    tmp_path: Path, database: Any, orders: OrderSystem, how: list[str], said: str
) -> None:
    """N-27: refused is refused; anything else may have arrived and is not repeated."""
    office = Office(tmp_path, database, order_tools(orders.url))
    orders.fail_next = how
    assert await office.do("order_create", title="打印机") == said
    assert len(orders.seen) == 1


async def test_an_unclear_http_write_with_a_key_is_tried_once_more(tmp_path: Path, database: Any, orders: OrderSystem) -> None:
    """With an idempotency key a second try is harmless."""
    office = Office(tmp_path, database, order_tools(orders.url, idempotency_header="Idempotency-Key"))
    orders.fail_next = ["500"]
    assert await office.do("order_create", title="打印机") == "已建工单 WO-1：打印机"
    assert orders.seen[0][2]["Idempotency-Key"] == orders.seen[1][2]["Idempotency-Key"]


async def test_a_read_does_not_follow_a_redirect_inside(tmp_path: Path, database: Any, orders: OrderSystem) -> None:
    """N-20: redirects are checked like the first address."""
    office = Office(tmp_path, database, order_tools(orders.url))
    orders.fail_next = ["redirect"]
    assert (await office.call("order_status", order="1")).summary == "「查订单」没有成功：这个地址不允许访问。"
