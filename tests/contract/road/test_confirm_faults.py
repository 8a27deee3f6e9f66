"""A fault at every commit between 确认 and its told outcome: once, or not at all; never twice, never silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from sqlalchemy import select, update

from config.columns import table_of
from config.database import Database
from gateway.models import Inbound
from tests.contract.road.road import OUTBOX, Road, build_road
from tests.fakes.failing_database import FailingDatabase
from tools.base import Checked, Tool, ToolContext, ToolResult
from tools.context import Place
from tools.proposals import ACTIONS

_INBOUND = table_of(Inbound)
BEGINS = 4
"""The write that claims the action: after the message, the decision and its commit."""

MOST_WRITES = 6
"""More than the way has; what lies beyond it changes nothing."""


def counting(ran: list[str], **changes: Any) -> Tool:
    """A write that counts its effects and can be asked about them."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        ran.append(context.call_key)
        return ToolResult("已部署")

    async def check(context: ToolContext, arguments: Mapping[str, Any]) -> Checked:
        return "done" if ran else "not_done"

    schema = {"type": "object", "properties": {"host": {"type": "string"}}}
    return Tool("deploy", "部署", schema, run, title="部署", tool_class="operation", check=check, **changes)


async def proposed(road: Road) -> str:
    """A prompt that zhangsan has seen; the conversation is there, as after their first message."""
    await road.say("部署 a")
    (first,) = await road.inbound()
    place = Place("acme", "wecom-main", first.conversation_id, "s1", "zhangsan", "wecom_userid")
    outcome = await road.tools.registry.call(road.tools.contexts.of(place), "deploy", {"host": "a"})
    prompt = outcome.prompt
    if prompt is None:
        raise AssertionError(outcome.summary)

    def write(connection: Any) -> None:
        from config.ports import Draft

        for change in outcome.writes:
            change(connection)
        where = (first.conversation_id, "zhangsan", "s1")
        draft = Draft("p", "acme", "wecom-main", *where, "inbound", "1", text=prompt.text, action_id=prompt.action_id)
        road.outbox.put(connection, draft)
        connection.execute(update(OUTBOX).values(status="sent", via="push", sent_at_ms=1))

    await road.database.write(write)
    return str(first.conversation_id)


async def died_and_taken_up(road: Road, conversation: str) -> None:
    """What the reaper does: leases that ran out are free, what stands open is worked on again."""
    gone = {"lease_owner": "dead", "lease_until_ms": 1}
    await road.database.write(lambda c: c.execute(update(ACTIONS).where(ACTIONS.c.status == "executing").values(**gone)))
    await road.tools.executor.reap()
    await road.dispatcher.run_waiting(conversation, cast(Any, road.channels))


@pytest.mark.parametrize("committed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fail_at", range(1, MOST_WRITES + 1))
async def test_a_fault_at_each_commit(database: Database, monkeypatch: pytest.MonkeyPatch, fail_at: int, committed: bool) -> None:
    """C18 C24 N-03: the n-th write of the way fails, or its answer is lost. Afterwards one effect, one outcome that is true,
    and a message that is answered."""
    ran: list[str] = []
    failing = FailingDatabase(database)
    road = await build_road(cast(Database, failing), monkeypatch, tools=[counting(ran)])
    monkeypatch.setattr("tools.actions._RETRIES_S", ())
    conversation = await proposed(road)
    message = road.message("确认 1", sent_at_ms=road.clock.now_ms())
    failing.arm(fail_at, committed=committed)
    await road.deliver(message)
    failing.arm(0, committed=False)
    seen = await road.database.read(lambda c: c.execute(select(_INBOUND.c.seq)).scalars().all())
    if len(seen) < 2:  # it was not stored, so it was not acknowledged: the platform delivers it again
        await road.deliver(message, attempt=2)
    await died_and_taken_up(road, conversation)
    (action,) = await road.database.read(lambda c: c.execute(select(ACTIONS)).all())
    outcomes = [row for row in await road.outgoing() if row.idempotency_key == f"action:{action.id}:0"]
    if (fail_at, committed) == (BEGINS, True):  # begun by nobody who knows it: looked into, told, and not tried again
        assert (ran, action.status) == ([], "failed")
        assert [row.payload["text"] for row in outcomes] == ["没有执行：部署：a\n执行中断，已核实没有生效，可以重新告诉我。"]
    else:
        assert (len(ran), action.status) == (1, "succeeded")
        assert [row.payload["text"] for row in outcomes] in (["已部署"], ["已执行（执行中断过，已核实生效）：部署：a"])
    (answer,) = [row for row in await road.inbound() if row.seq == max(seen)]
    assert answer.status == "done"


async def test_a_yes_is_answered_where_it_waits(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a fault: the outcome is the HTTP response itself."""
    ran: list[str] = []
    road = await build_road(database, monkeypatch, tools=[counting(ran)])
    await proposed(road)
    reply = await road.deliver(road.message("确认", sent_at_ms=road.clock.now_ms()))
    assert reply.body.decode() == "已部署"
    assert ran != []


async def test_stop_calls_a_queued_action_back(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long tool was confirmed and waits for a worker: 停止 ends it, and says so; the job then finds nothing to do."""
    ran: list[str] = []
    road = await build_road(database, monkeypatch, tools=[counting(ran, long=True)])
    await proposed(road)
    receipt = (await road.say("确认 1")).splitlines()[0]
    assert receipt == "好的，正在处理，完成后通知你。"
    assert await road.say("停止") == "已取消，没有执行：部署：a"
    (action,) = await road.database.read(lambda c: c.execute(select(ACTIONS)).all())
    assert await road.tools.executor.execute(action.id) is None
    assert (ran, action.status) == ([], "rejected")
