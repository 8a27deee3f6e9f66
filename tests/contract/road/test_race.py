"""The race against the deadline: in time, late with push, late without push; exactly one answer each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from sqlalchemy import Connection

from agent.protocol import InboundMessage, Reply, TurnResult
from config.database import Database
from gateway import texts
from tests.contract.road.road import Road


def slow(seconds: float, answer: str = "慢答案"):  # type: ignore[no-untyped-def]
    """A turn that takes a while."""

    async def script(message: InboundMessage) -> TurnResult:
        await asyncio.sleep(seconds)
        return TurnResult((Reply(answer),))

    return script


async def test_an_answer_in_time_is_the_http_response(road: Road) -> None:
    """OA5-08: no placeholder, no push, one outbox row sent passively."""
    assert await road.say("你好") == "答:你好"
    (row,) = await road.outgoing()
    assert (row.status, row.via) == ("sent", "passive")
    assert [r.status for r in await road.inbound()] == ["done"]


async def test_identical_deliveries_at_once_are_one_turn(road: Road) -> None:
    """OA5-20, OA5-12, DUP-06: three deliveries of one message, one turn, the same answer to whoever still listens."""
    road.turns.script = slow(0.2)
    message = road.message("一次")
    bodies = [reply.body.decode() for reply in await asyncio.gather(*(road.deliver(message) for _ in range(3)))]
    assert len(road.turns.asked) == 1
    assert "慢答案" in bodies
    assert len(await road.outgoing()) == 1


async def test_a_redelivery_of_a_passive_answer_gets_it_again(road: Road) -> None:
    """N-03: the response may have been lost; the remembered answer is given again, no second turn."""
    message = road.message("记得")
    first = await road.deliver(message)
    again = await road.deliver(message, attempt=2)
    assert first.body == again.body == "答:记得".encode()
    assert len(road.turns.asked) == 1


class _SlowWrites:
    """A database that takes no write before it is told to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.free, self.written = asyncio.Event(), asyncio.Event()

    async def write(self, fn: Callable[[Connection], Any], *, durable: bool = True) -> Any:
        """Wait, then write."""
        await self.free.wait()
        try:
            return await self._database.write(fn, durable=durable)
        finally:
            self.written.set()


async def test_an_answer_is_not_taken_for_a_handler_that_left(road: Road) -> None:
    """N-03: a hand-over that comes after its handler gave up leaves it to delivery, or the last try would lose it."""
    slow_writes = _SlowWrites(road.database)
    road.dispatcher._database = cast(Any, slow_writes)
    assert (await road.deliver(road.message("你好"))).close
    slow_writes.free.set()
    await slow_writes.written.wait()
    (row,) = await road.outgoing()
    assert (row.status, row.via) == ("passive_reserved", None)


async def test_a_late_wecom_answer_is_pushed_and_redeliveries_are_empty(road: Road) -> None:
    """OA5-19, DEL-30: the notice answers in time, the same turn goes on, its answer is one pending row."""
    road.turns.script = slow(3.0)
    message = road.message("慢")
    assert (await road.deliver(message)).body.decode() == texts.RECEIPT
    assert (await road.deliver(message, attempt=2)).body == b""

    async def stored() -> bool:
        return len(await road.outgoing()) == 1

    await road.until(stored)
    (row,) = await road.outgoing()
    assert (row.status, row.via) == ("pending", None)
    assert (await road.deliver(message, attempt=3)).body == b""
    assert len(road.turns.asked) == 1


async def test_a_verified_account_acknowledges_and_pushes(road: Road) -> None:
    """OA5-05, DEL-22: ``success`` in time, the answer by customer-service message."""
    road.turns.script = slow(1.8)
    assert (await road.deliver(road.message("慢", "oA", "mp-main"))).body == b"success"

    async def pending() -> bool:
        return [row.status for row in await road.outgoing()] == ["pending"]

    await road.until(pending)


async def test_without_push_the_second_delivery_brings_the_answer(road: Road) -> None:
    """OA5-02: delivery 1 stays unanswered, delivery 2 joins and carries the answer, no placeholder."""
    road.turns.script = slow(1.8)
    message = road.message("慢", "oA", "mp-sub")
    assert (await road.deliver(message)).close
    assert (await road.deliver(message, attempt=2)).body.decode() == "慢答案"
    assert len(road.turns.asked) == 1


async def test_without_push_the_third_delivery_gets_a_placeholder_that_quotes(road: Road) -> None:
    """OA5-09, OA5-15, OA5-16: the late answer is parked, told about while it runs, pulled by 继续 with its question."""
    release = asyncio.Event()

    async def script(message: InboundMessage) -> TurnResult:
        await release.wait()
        return TurnResult((Reply("终于"),))

    road.turns.script = script
    message = road.message("上周的报表在哪", "oA", "mp-sub")
    assert (await road.deliver(message)).close
    assert (await road.deliver(message, attempt=2)).close
    third = (await road.deliver(message, attempt=3)).body.decode()
    assert third == "正在处理“上周的报表在哪”，稍后回复「继续」查看。"
    assert (await road.say("继续", "oA", "mp-sub")).startswith("还在处理：上周的报表在哪，已 ")
    release.set()

    async def parked() -> bool:
        return [row.status for row in await road.outgoing() if row.final and row.cause_id == "1"] == ["parked"]

    await road.until(parked)
    assert await road.say("继续", "oA", "mp-sub") == "关于：上周的报表在哪\n终于"
    assert await road.say("继续", "oA", "mp-sub") == texts.NOTHING_PARKED
    assert len(road.turns.asked) == 1


async def test_an_empty_answer_acknowledges(road: Road) -> None:
    """CB-09, CB-18: no empty Content, no outbox row."""

    async def script(message: InboundMessage) -> TurnResult:
        return TurnResult((), "empty")

    road.turns.script = script
    assert await road.say("嗯哼", "oA", "mp-main") == "success"
    assert await road.outgoing() == []


async def test_a_locked_database_leaves_the_callback_unanswered_and_the_redelivery_is_answered_once(road: Road) -> None:
    """N-01: nothing is acknowledged before it is stored; after the lock the redelivery gets the one answer."""
    entered, release = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(connection):  # type: ignore[no-untyped-def]
        connection.exec_driver_sql("UPDATE inbound SET attempts = attempts")
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("LOCK TABLE inbound IN ACCESS EXCLUSIVE MODE")
        loop.call_soon_threadsafe(entered.set)
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_sleep(2.5)")
        else:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(5)

    lock = asyncio.create_task(road.database.write(hold))
    await entered.wait()
    message = road.message("锁住了")
    assert (await road.deliver(message)).close
    assert road.turns.asked == []
    release.set()
    await lock
    reply = await road.deliver(message, attempt=2)
    assert reply.body.decode() in ("答:锁住了", "")
    assert len(road.turns.asked) == 1
    assert len(await road.outgoing()) == 1
