"""Internal HTTP systems as tools, against a server on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from config.schema import (
    HttpTool,
    ToolSettings,
)
from tests.integration.tools.office import Office


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
        if how == "moved":
            return web.Response(status=302)
        if how == "no json":
            return web.Response(text="saved, thanks")
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
        (["moved"], "执行中断，结果不明：建工单：打印机\n我不会自动重做。请先核实，确实没有执行再重新告诉我。"),
        (["no json"], "执行中断，结果不明：建工单：打印机\n我不会自动重做。请先核实，确实没有执行再重新告诉我。"),
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


async def test_a_system_declared_anew_is_not_the_one_that_was_confirmed(
    tmp_path: Path, database: Any, orders: OrderSystem
) -> None:
    """C17: the address changed between prompt and call; what was confirmed would go elsewhere, so nothing is sent."""
    before = Office(tmp_path, database, order_tools(orders.url))
    outcome = await before.call("order_create", title="打印机")
    await before.publish(outcome)
    assert outcome.prompt is not None
    after = Office(tmp_path, database, order_tools(orders.url + "/other"))
    assert await after.agree(outcome.prompt.action_id) == "没有执行：建工单：打印机\n原因：这个工具已经停用或更新"
    assert orders.seen == []


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
