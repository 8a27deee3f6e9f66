"""A small work-order system over HTTP, for the examples of tools declared in the settings."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from .answers import json_answer
from .world import World

_FIRST = (
    ("web-01 内存使用率 92%", "high", "open"),
    ("打印机缺纸，三楼东侧", "low", "open"),
    ("VPN 证书下月到期", "normal", "open"),
    ("会议室投影仪无法连接", "normal", "closed"),
)
_CHANGEABLE = frozenset({"title", "priority", "status"})


class WorkOrders:
    """``/_svc/work_orders``: list, create, read, update."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def listing(self, request: web.Request) -> web.Response:
        """GET ?status=open|closed|all → {total, summary, items}."""
        orders = self._orders()
        status = request.query.get("status", "all")
        chosen = [order for order in orders if status in ("", "all", order["status"])]
        summary = "；".join(f"{order['id']} {order['title']}" for order in chosen)
        return json_answer({"total": len(chosen), "summary": summary or "没有", "items": chosen})

    async def create(self, request: web.Request) -> web.Response:
        """POST {title, priority?}; the same Idempotency-Key gives the same order again."""
        body = await _object_of(request)
        if body is None:
            return json_answer({"error": "the body is not a JSON object"}, status=400)
        if not body.get("title"):
            return json_answer({"error": "title is required"}, status=422)
        orders, key = self._orders(), request.headers.get("Idempotency-Key")
        for order in orders:
            if key and order.get("key") == key:
                return json_answer(order)
        order = self._order(str(body["title"]), str(body.get("priority") or "normal"), "open") | {"key": key}
        orders.append(order)
        slow = self._world.faults.take("slow_ms", None, request.path, path_named=True)
        if slow is not None:
            await asyncio.sleep((slow.value or 0) / 1000)
        return json_answer(order, status=201)

    async def one(self, request: web.Request) -> web.Response:
        """GET and PATCH /{id}; title, priority and status may be changed."""
        order = next((order for order in self._orders() if order["id"] == request.match_info["id"]), None)
        if order is None:
            return json_answer({"error": "no such work order"}, status=404)
        if request.method == "PATCH":
            changes = await _object_of(request)
            if changes is None or not changes.keys() <= _CHANGEABLE:
                return json_answer({"error": f"expected a JSON object with {', '.join(sorted(_CHANGEABLE))}"}, status=400)
            order.update(changes)
        return json_answer(order)

    def _orders(self) -> list[dict[str, Any]]:
        if not self._world.work_orders:
            for title, priority, status in _FIRST:
                self._world.work_orders.append(self._order(title, priority, status))
        return self._world.work_orders

    def _order(self, title: str, priority: str, status: str) -> dict[str, Any]:
        number = len(self._world.work_orders) + 1
        return {
            "id": f"WO-{1000 + number}",
            "title": title,
            "priority": priority,
            "status": status,
            "created_at": self._world.clock.now_ms(),
        }


async def _object_of(request: web.Request) -> dict[str, Any] | None:
    try:
        body = json.loads(await request.read())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None
