"""Delivery on every database: order, retries, parking, alerts, unknown outcomes, take-over after a death."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import Connection, event

from gateway import outbox_claims
from gateway.outbox_claims import DUPLICATE_WINDOW_MS
from tests.contract.outbox.world import World
from tests.fakes.channel import LOST, NOT_SENT, answered

NEVER = 10**15


async def test_parts_go_in_order_and_a_failed_part_resumes_there(world: World) -> None:
    """FMT-12, SES-17: part n+1 only after n is accepted; a retry never repeats earlier parts."""
    await world.put("k1", "甲" * 200 + "乙" * 200 + "丙" * 200)
    world.wecom.expect(answered(0), answered(-1, "system error"))
    delivery = world.delivery()
    await delivery.pass_once()
    assert [text[0] for text in world.wecom.texts] == ["甲"]
    assert await world.states() == ["sent", "pending", "pending"]
    world.clock.advance(10)
    await world.delivery().pass_once()  # a restart
    assert [text[0] for text in world.wecom.texts] == ["甲", "乙", "丙"]
    assert await world.states() == ["sent"] * 3


async def test_retry_repeats_the_same_bytes(world: World) -> None:
    """N-04: bytes are frozen at the first attempt, with the duplicate check on; a retry sends exactly them."""
    await world.put("k1", "库存不足")
    world.wecom.expect(NOT_SENT, LOST)
    for _ in range(3):
        await world.delivery().pass_once()
        world.clock.advance(10)
    bodies = [body for _, body, _ in world.wecom.calls]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert json.loads(bodies[0])["check"] == 1
    assert await world.states() == ["sent"]


async def test_two_genuine_messages_with_the_same_words_are_both_shown(world: World) -> None:
    """DUP-09, N-04: two pushes 库存不足 a minute apart; the second goes without the duplicate check."""
    await world.put("k1", "库存不足")
    await world.delivery().pass_once()
    world.clock.advance(60)
    await world.put("k2", "库存不足")
    await world.delivery().pass_once()
    checks = [json.loads(body).get("check") for _, body, _ in world.wecom.calls]
    assert checks == [1, None]
    assert world.wecom.texts == ["库存不足"] * 2
    world.clock.advance(DUPLICATE_WINDOW_MS / 1000)
    await world.put("k3", "库存不足")
    await world.delivery().pass_once()
    assert json.loads(world.wecom.calls[-1][1])["check"] == 1


async def test_same_words_without_the_check_are_not_retried_blindly(world: World) -> None:
    """N-04, DUP-08: without the check an unknown outcome of a notification is recorded and left."""
    await world.put("k1", "库存不足", cause="push")
    await world.delivery().pass_once()
    await world.put("k2", "库存不足", cause="push")
    world.wecom.expect(LOST)
    await world.delivery().pass_once()
    world.clock.advance(3600)
    await world.delivery().pass_once()
    assert len(world.wecom.calls) == 2
    assert await world.states() == ["sent", "unknown"]


async def test_unknown_without_a_handle_is_left(world: World) -> None:
    """DUP-08, N-05: a customer-service message that may have arrived is not sent again by itself."""
    await world.can_push("push")
    await world.put("k1", account_id="mp-main", user_id="o1", cause="push")
    world.mp.expect(LOST)
    for _ in range(3):
        await world.delivery().pass_once()
        world.clock.advance(60)
    assert len(world.mp.calls) == 1
    assert await world.states() == ["unknown"]


async def test_unknown_final_answer_is_repeated_once_and_counted(world: World) -> None:
    """N-05: a final answer to an inbound message is repeated once where the platform has no handle."""
    await world.can_push("push")
    await world.put("k1", account_id="mp-main", user_id="o1", cause="inbound", cause_id="1", final=True)
    world.mp.expect(LOST, LOST, LOST)
    for _ in range(4):
        await world.delivery().pass_once()
        world.clock.advance(60)
    assert len(world.mp.calls) == 2
    row = (await world.rows())[0]
    assert (row["status"], row["repeats"]) == ("unknown", 1)


async def test_unknown_and_dead_heads_do_not_block(world: World) -> None:
    """N-06: a dead and an unknown head leave the line to the next message; the rest of their own group waits."""
    await world.can_push("push")
    await world.put("k1", "甲" * 201, account_id="mp-main", user_id="o1", cause="push")
    await world.put("k2", "乙", account_id="mp-main", user_id="o1", cause="push")
    await world.put("k3", "丙", account_id="mp-main", user_id="o1", cause="push")
    world.mp.expect(LOST, answered(44004, "empty content"))
    await world.delivery().pass_once()
    rows = await world.rows()
    assert [row["status"] for row in rows if row["cause"] == "push"] == ["unknown", "parked", "dead", "sent"]
    assert rows[1]["park_reason"] == "blocked"
    assert world.mp.texts == ["丙"]


async def test_scheduled_and_expiring(world: World) -> None:
    """SES-10: due after a restart without any inbound message; a passed expiry is never sent; the future makes nobody wait."""
    now = world.clock.now_ms()
    await world.put("later", "明天", not_before_ms=now + 3_600_000)
    await world.put("past", "迟到的", not_before_ms=now - 172_800_000)
    await world.put("over", "过期", not_before_ms=now - 2000, expires_at_ms=now - 1000)
    await world.delivery().pass_once()
    assert world.wecom.texts == ["迟到的"]
    assert await world.states() == ["pending", "sent", "expired"]
    world.clock.advance(3601)
    await world.delivery().pass_once()
    assert world.wecom.texts == ["迟到的", "明天"]


async def test_two_deliveries_never_send_twice(world: World) -> None:
    """N-03: two serving processes on one database, each row goes out once, each conversation in order."""
    for number in range(12):
        await world.put(f"k{number}", f"{number}", user_id=f"u{number % 3}")
    first, second = world.delivery(), world.delivery()
    await asyncio.gather(first.pass_once(), second.pass_once(), first.pass_once())
    while "pending" in await world.states():
        await asyncio.gather(first.pass_once(), second.pass_once())
    assert sorted(world.wecom.texts, key=int) == [str(number) for number in range(12)]
    for user in range(3):
        mine = [int(text) for text, target in world.wecom.accepted if target.users == (f"u{user}",)]
        assert mine == sorted(mine)


@pytest.mark.parametrize("frozen", [True, False], ids=["after-the-request", "before-the-request"])
async def test_death_mid_send_is_taken_over(world: World, frozen: bool) -> None:
    """N-05: a process dies while sending; another one finds the row by its lease. Never frozen means never sent."""
    await world.put("k1", "答案")
    world.wecom.hold = asyncio.Event()
    dying = world.delivery()
    task = asyncio.create_task(dying.pass_once())
    async with asyncio.timeout(10):
        await world.wecom.entered.wait()
    task.cancel()
    for attempt in tuple(dying._sending.values()):
        attempt.cancel()
    await asyncio.gather(task, return_exceptions=True)
    world.wecom.hold = None
    assert await world.states() == ["sending"]
    await world.set_rows(lease_until_ms=1, **({} if frozen else {"request": None, "frozen_at_ms": None}))
    heir = world.delivery()
    await heir.pass_once()
    assert await world.states() == (["pending"] if frozen else ["sent"])
    world.clock.advance(10)
    await heir.pass_once()
    assert await world.states() == ["sent"]
    row = (await world.rows())[0]
    assert row["repeats"] == (1 if frozen else 0)
    assert len({body for _, body, _ in world.wecom.calls}) == 1


async def test_a_late_writer_changes_nothing(world: World) -> None:
    """N-03: a paused process that wakes after its row was taken over writes nothing."""
    await world.put("k1", "答案")
    slow = world.delivery()
    world.wecom.hold = asyncio.Event()
    task = asyncio.create_task(slow.pass_once())
    async with asyncio.timeout(10):
        await world.wecom.entered.wait()
    await world.set_rows(lease_until_ms=1)
    await world.delivery()._take_over()
    assert await world.states() == ["pending"]
    world.wecom.hold.set()
    await task
    assert (await world.rows())[0]["repeats"] == 1
    world.clock.advance(10)
    world.wecom.hold = None
    await world.delivery().pass_once()
    assert await world.states() == ["sent"]


async def test_a_paused_process_does_not_send_beside_its_heir(world: World) -> None:
    """N-02, N-04: a process that pauses between its claim of a retry and the call finds the claim gone, and does not call."""
    await world.put("k1", "答案")
    world.wecom.expect(answered(-1, "system busy"))
    await world.delivery().pass_once()
    world.clock.advance(10)
    slow = world.delivery()
    claims = await slow._claim()
    await world.set_rows(lease_until_ms=1)
    heir = world.delivery()
    await heir.pass_once()
    await slow._sender.deliver(claims[0])
    assert len(world.wecom.calls) == 1
    world.clock.advance(10)
    await heir.pass_once()
    assert world.wecom.texts == ["答案"]


async def test_what_kills_every_sender_is_given_up(world: World) -> None:
    """N-07: a message whose attempts end their process before the call comes later and later, and in the end is dead."""
    await world.put("k1", "答案")
    delivery = world.delivery()
    waits = []
    for _ in range(200):
        await delivery._claim()
        await world.set_rows(lease_until_ms=1)
        await delivery._take_over()
        row = (await world.rows())[0]
        if row["status"] != "pending":
            break
        waits.append(row["next_attempt_at_ms"] - world.clock.now_ms())
        world.clock.advance(max(waits[-1] / 1000, 0) + 3600)
    assert (row["status"], world.wecom.calls) == ("dead", [])
    assert waits[0] == 0
    assert waits[-1] > 60_000


async def test_idle_cost_is_flat_in_sent_rows(world: World) -> None:
    """Idle polls look things up by index whatever the table holds: no scan in any query plan."""
    if world.database.dialect != "sqlite":
        pytest.skip("query plans are read on SQLite")

    def plans(connection: Connection) -> list[str]:
        statements: list[tuple[str, Any]] = []

        def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
            statements.append((statement, parameters))

        event.listen(connection, "before_cursor_execute", note)
        outbox_claims.has_due(connection, 1)
        outbox_claims.has_orphans(connection)
        outbox_claims.expire_parked(connection, 1)
        outbox_claims.due_heads(connection, 1, 8)
        world.outbox.expired_reservations(connection, 8)
        world.outbox.flush_parked(connection, "c1")
        world.outbox.newest(connection, "c1")
        event.remove(connection, "before_cursor_execute", note)
        explained = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all() for sql, values in statements]
        return [str(row[-1]) for rows in explained for row in rows]

    seen = await world.database.read(plans)
    assert len(seen) > 8
    assert [plan for plan in seen if plan.startswith("SCAN")] == []


async def test_placeholder_and_answer_both_arrive_in_order(world: World) -> None:
    """DEL-30: a notice at the deadline is no delivery of the answer: both arrive, in this order."""
    await world.put("in:1:notice", "正在处理", cause="inbound", cause_id="1")
    await world.delivery().pass_once()
    world.clock.advance(26)
    await world.put("in:1", "答案", cause="inbound", cause_id="1", final=True, label="问")
    await world.delivery().pass_once()
    assert world.wecom.texts == ["正在处理", "答案"]


async def test_blanked_body_is_recorded_not_sent(world: World) -> None:
    """N-10: a row whose body was removed by retention expires; its key still refuses a second message."""
    await world.put("k1", "秘密")
    await world.set_rows(payload=None)
    await world.delivery().pass_once()
    assert await world.states() == ["expired"]
    assert await world.put("k1", "秘密") == (await world.rows())[0]["group_id"]
    assert len(await world.rows()) == 1


async def test_nothing_of_a_token_is_kept(world: World) -> None:
    """S001-40: a row holds the request only; the token is the channel's business at the moment of sending."""
    await world.put("k1", "答案")
    await world.delivery().pass_once()
    row = (await world.rows())[0]
    assert b"token" not in row["request"]
    assert set(json.loads(row["request"])) == {"to", "kind", "payload", "text", "check"}


async def test_wecom_answer_is_labelled_when_another_question_came(world: World) -> None:
    """OA5-16: on WeCom a late answer names its question only when the person has asked something else since."""
    for key, text in (("in:1", "答一"), ("in:2", "答二")):
        seq = int(key[-1])
        await world.ask(seq)
        world.clock.advance(1)
        await world.put(key, text, cause="inbound", cause_id=str(seq), label=f"问题{seq}", final=True, not_before_ms=NEVER)
    world.clock.advance(30)
    await world.set_rows(not_before_ms=None, next_attempt_at_ms=1)
    await world.delivery().pass_once()
    assert world.wecom.texts == ["关于：问题1\n答一", "答二"]
