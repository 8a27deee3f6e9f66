"""Followers of Official Accounts confirm a public write: by menu where the account may push, in words where it may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from config.schema import HttpTool, Settings
from tests.cases.scenes import UNVERIFIED, VERIFIED, changed_stack
from tests.fakes.model_server import call, say
from tests.stack import Stack

ORDER = {"item": "咖啡"}


class Shop:
    """An order system that counts."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        """One order."""
        self.orders.append(await request.json())
        self.keys.append(request.headers.get("Idempotency-Key", ""))
        return web.json_response({"number": len(self.orders)})


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """A running shop on loopback."""
    made, app = Shop(), web.Application()
    app.router.add_post("/orders", made.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/orders"
    yield made
    await runner.cleanup()


@pytest.fixture
async def mall(tmp_path: Path, valkey: str, shop: Shop) -> AsyncIterator[Stack]:
    """A stack whose followers may order."""
    tool = HttpTool.model_validate(
        {
            "name": "order",
            "description": "下单",
            "class": "operation",
            "method": "POST",
            "url": shop.url,
            "parameters": {
                "type": "object",
                "properties": {"item": {"type": "string", "description": "商品"}},
                "required": ["item"],
                "additionalProperties": False,
            },
            "summary_template": "已下单 {item}，单号 {number}",
            "public": True,
            "idempotency_header": "Idempotency-Key",
        }
    )

    def sell(settings: Settings) -> Settings:
        tenants = [t.model_copy(update={"tools": t.tools.model_copy(update={"http": (tool,)})}) for t in settings.tenants]
        return settings.model_copy(update={"tenants": tuple(tenants)})

    async with changed_stack(tmp_path, valkey, sell) as running:
        yield running


async def test_in_words_where_nothing_can_be_pushed(mall: Stack, shop: Shop) -> None:
    """The prompt is the HTTP response itself; so is the outcome. Another follower's number is nothing here."""
    mall.model.then(call("order", ORDER))
    prompt = await mall.ask(*UNVERIFIED, "来杯咖啡")
    assert prompt.startswith("即将执行以下操作，请确认\n操作：下单\n商品：“咖啡”")
    await mall.advance(1)
    assert (await mall.ask(*VERIFIED, "确认 1")).startswith("没有编号为 1 的待确认操作。")
    assert shop.orders == []
    assert (await mall.ask(*UNVERIFIED, "确认")).startswith("已下单 咖啡，单号 1")
    assert (await mall.ask(*UNVERIFIED, "确认 1")).startswith("这项已经执行过了，不会重复执行。结果：已下单 咖啡，单号 1")
    assert shop.orders == [ORDER]
    assert len(set(shop.keys)) == 1


async def test_by_menu_where_the_account_may_push(mall: Stack, shop: Shop) -> None:
    """N-16: a click on the menu message is its action's yes; the same click again, and the other item, find it done."""
    mall.model.then(call("order", ORDER))
    await mall.say(*VERIFIED, "来杯咖啡")
    shown = await mall.seen(*VERIFIED, "即将执行以下操作，请确认")
    await mall.advance(1)
    yes, no = await menu_of(mall, shown)
    for key in (yes, yes, no):
        await mall.post("click", account=VERIFIED[0], user=VERIFIED[1], menu_id=key, key=key)
    await mall.seen(*VERIFIED, "已下单 咖啡，单号 1")
    assert shop.orders == [ORDER]


async def test_a_model_that_orders_by_itself_orders_nothing(mall: Stack, shop: Shop) -> None:
    """A follower's model says it has ordered, and then asks for the same in two turns: one waits."""
    mall.model.then(say("好的，已为您下单咖啡。"))
    assert "这一轮没有创建、修改或发出任何东西" in await mall.ask(*UNVERIFIED, "来杯咖啡")
    for _ in range(2):
        mall.model.then(call("order", ORDER))
        await mall.ask(*UNVERIFIED, "快点")
    rows = await mall.rows("SELECT status FROM pending_action ORDER BY created_at_ms, id")
    assert [row["status"] for row in rows] == ["superseded", "pending"]
    assert shop.orders == []


async def menu_of(stack: Stack, shown: dict[str, Any]) -> tuple[str, str]:
    """The ids of a menu message's two items, as the platform has them."""
    sent = [entry["body"]["msgmenu"] for entry in await stack.calls("mp-main", "custom/send") if "msgmenu" in entry["body"]]
    yes, no = (str(item["id"]) for item in sent[-1]["list"])
    return yes, no
