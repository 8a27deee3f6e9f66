"""What confirmations cost does not grow with what was settled long ago."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, select

from config.columns import table_of
from tests.contract.confirm.world import World
from tools import left_behind
from tools.action_rows import abandoned
from tools.builtin.reminder import NewReminder, add_reminder
from tools.models import Reminder
from tools.outcomes import Outcomes
from tools.proposals import ACTIONS

_REMINDER = table_of(Reminder)


async def settled_long_ago(world: World, count: int) -> None:
    """One action that waits and ``count`` that are over; ``count`` reminders of other people."""
    await world.propose()
    await world.database.write(lambda c: add_reminder(c, world.context(), NewReminder("x", world.clock.now_ms(), "none", "k")))

    def multiply(connection: Connection) -> None:
        action = dict(connection.execute(select(ACTIONS)).mappings().one())
        reminder = dict(connection.execute(select(_REMINDER)).mappings().one())
        over = {"status": "succeeded"}
        connection.execute(insert(ACTIONS), [{**action, **over, "id": f"a{n}", "idempotency_key": f"a{n}"} for n in range(count)])
        others = [{**reminder, "id": f"r{n}", "idempotency_key": f"r{n}", "owner_key": f"p{n}"} for n in range(count)]
        connection.execute(insert(_REMINDER), others)

    await world.database.write(multiply)
    if world.database.dialect == "postgresql":
        await world.database.write(lambda c: c.exec_driver_sql("ANALYZE"))


@pytest.mark.parametrize("table", ["pending_action", "reminder"])
async def test_nothing_walks_a_whole_table(world: World, table: str) -> None:
    """A pass of the reaper, and a new reminder, look rows up in indexes."""
    await settled_long_ago(world, 3000)
    outcomes = Outcomes(world.outbox, world.clock, world.tools.registry)
    explain = "EXPLAIN QUERY PLAN " if world.database.dialect == "sqlite" else "EXPLAIN "

    def plans(connection: Connection) -> list[str]:
        seen: list[tuple[str, Any]] = []

        def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
            if table in statement and not statement.startswith("INSERT"):
                seen.append((statement, parameters))

        event.listen(connection, "before_cursor_execute", note)
        left_behind.end_waiting(connection, outcomes, world.clock, 64)
        abandoned(connection, 64)
        add_reminder(connection, world.context(), NewReminder("y", world.clock.now_ms(), "none", "k2"))
        event.remove(connection, "before_cursor_execute", note)
        explained = [connection.exec_driver_sql(explain + sql, values).all() for sql, values in seen]
        return ["\n".join(str(row[-1]) for row in rows) for rows in explained]

    found = await world.database.write(plans)
    assert len(found) == {"pending_action": 4, "reminder": 2}[table]
    for plan in found:
        assert f"SCAN {table}" not in plan, plan
        assert f"Seq Scan on {table}" not in plan, plan
