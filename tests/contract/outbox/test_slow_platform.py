"""A platform that answers slowly keeps its own messages waiting and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, event, insert

from gateway import outbox_claims
from gateway.delivery import CONCURRENT
from gateway.outbox_claims import PER_ACCOUNT, Claimed
from gateway.outbox_states import ROWS
from tests.contract.outbox.world import World


async def _claim(world: World, busy: dict[str, int]) -> list[str]:
    def claim(connection: Connection) -> list[Claimed]:
        now = world.clock.now_ms()
        return outbox_claims.claim(connection, "d1", now, CONCURRENT, lambda _c, _row: None, busy)[0]

    return [claimed.row["account_id"] for claimed in await world.database.write(claim)]


async def test_a_slow_account_does_not_take_every_slot(world: World) -> None:
    await world.can_push("push")
    for number in range(CONCURRENT + 5):  # all of them older than the follower's
        await world.put(f"w{number}", user_id=f"u{number}")
    world.clock.advance(0.001)
    await world.put("m1", account_id="mp-main", user_id="o1", cause="inbound", cause_id="1")
    assert await _claim(world, {"wecom-main": PER_ACCOUNT - 3}) == ["wecom-main"] * 3 + ["mp-main"]
    assert await _claim(world, {"wecom-main": PER_ACCOUNT}) == []
    assert await _claim(world, {}) == ["wecom-main"] * PER_ACCOUNT


async def _backlog(world: World, count: int) -> None:
    """``count`` due pushes of the WeCom app behind each other, one a person; the Official Account's one answer and one push."""
    await world.can_push("push")
    await world.put("w", user_id="u", cause="push", cause_id="p1")
    await world.put("a", account_id="mp-main", user_id="o1", cause="inbound", cause_id="1")
    await world.put("p", account_id="mp-main", user_id="o2", cause="push", cause_id="p2")
    (row, *_) = await world.rows()
    row.pop("seq")
    more = [
        {**row, "idempotency_key": f"w{n}", "group_id": f"w{n}", "conversation_id": f"line{n}", "user_id": f"u{n}"}
        for n in range(count)
    ]
    await world.database.write(lambda c: c.execute(insert(ROWS), more))
    if world.database.dialect == "postgresql":
        await world.database.write(lambda c: c.exec_driver_sql("ANALYZE outbox_message"))


def _statements(connection: Connection) -> list[tuple[str, Any]]:
    """What looking for due heads executes while the WeCom app is passed over."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        seen.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    heads = outbox_claims.due_heads(connection, 2**53, 8, ["wecom-main"])
    event.remove(connection, "before_cursor_execute", note)
    assert [head["account_id"] for head in heads] == ["mp-main"] * 2
    return seen


async def test_a_long_list_of_a_slow_account_is_not_walked_for_the_others(world: World) -> None:
    """Every look for due heads is a look-up in the two partial indexes."""
    await _backlog(world, 3000)
    explain = "EXPLAIN QUERY PLAN " if world.database.dialect == "sqlite" else "EXPLAIN "

    def plans(connection: Connection) -> list[str]:
        explained = [connection.exec_driver_sql(explain + sql, values).all() for sql, values in _statements(connection)]
        return ["\n".join(str(row[-1]) for row in rows) for rows in explained]

    found = await world.database.write(plans)
    assert len(found) == 3 + 4, "answers: one account and no other, its heads; pushes: two accounts and no other, heads of one"
    for number, plan in enumerate(found):
        assert f"ix_outbox_due_{'answers' if number < 3 else 'pushes'}" in plan, plan
        assert "SCAN outbox_message" not in plan, plan
        assert "Seq Scan on outbox_message" not in plan, plan
        assert "TEMP B-TREE" not in plan, plan


async def test_looking_for_due_heads_costs_the_same_behind_any_backlog(world: World) -> None:
    if world.database.dialect != "sqlite":
        pytest.skip("steps are counted on SQLite")

    def steps(connection: Connection) -> int:
        counted = [0]
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 10)
        _statements(connection)
        driver.set_progress_handler(None, 0)
        return counted[0]

    await _backlog(world, 10)
    few = await world.database.read(steps)
    await world.database.write(lambda c: c.execute(ROWS.delete()))
    await _backlog(world, 3000)
    assert await world.database.read(steps) <= few + 10
