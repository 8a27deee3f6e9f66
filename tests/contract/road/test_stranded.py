"""Fast answers that look stranded to the reaper: the first to store one wins, and a running action keeps its message."""

from __future__ import annotations

from typing import Any, cast

import pytest
from sqlalchemy import Connection, insert, update

from config import lease
from config.columns import table_of
from config.database import Database
from config.ports import Draft
from gateway.fast import AnsweredElsewhere
from gateway.stranded import end_told_actions
from memory.keys import conversation_id
from tests.contract.road.road import INBOUND, Road, build_road
from tools.models import PendingAction

ACTION = table_of(PendingAction)
WHERE = conversation_id("acme", "mp-sub", "single", "o1")


def parked(key: str) -> Draft:
    """An answer of the account that cannot push."""
    return Draft(key, "acme", "mp-sub", WHERE, "o1", None, "job", "j1", text=key)


async def test_one_pull_gives_one_answer_whoever_takes_it_for_stranded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-03: 继续 that two processes answer at once hands over one parked answer, not two."""
    one, other = await build_road(database, monkeypatch), await build_road(database, monkeypatch)
    for key in ("甲", "乙"):
        await database.write(lambda c, k=key: one.outbox.put(c, parked(k)))  # type: ignore[misc]
    message = one.message("继续", "o1", "mp-sub")
    reply = await one.deliver(message)
    assert reply.body.decode().startswith("甲")
    seq = (await one.inbound())[0].seq
    with pytest.raises(AnsweredElsewhere):
        await other.fast.answer(cast(Any, other.channels["mp-sub"]), message, seq, "")
    assert await database.read(lambda c: one.outbox.parked_count(c, WHERE)) == 1


@pytest.mark.parametrize("alive", [True, False])
async def test_a_running_action_keeps_its_message(database: Database, monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    """N-03: the message that confirmed an action is ended for its dead process only; while the action runs, its outcome is
    the answer that redeliveries wait for."""
    road: Road = await build_road(database, monkeypatch)
    await road.say("继续", "o1", "mp-sub")

    def confirm(connection: Connection) -> None:
        connection.execute(update(INBOUND).values(status="running", lane="fast"))
        row = {"tenant_id": "acme", "account_id": "mp-sub", "conversation_id": WHERE, "session_id": "s", "requester_id": "o1"}
        row |= {"tool": "t", "tool_version": "1", "tool_call_id": "c", "args_digest": "d", "idempotency_key": "k", "id": "pa1"}
        row |= {"args_json": "{}", "prompt_text": "", "summary": "", "status": "executing", "lease_owner": "p"}
        numbers = {"number": 1, "revision": 1, "fence": 1, "expires_at_ms": 1, "created_at_ms": 1}
        until = lease.now_ms(connection) + (15_000 if alive else -1)
        connection.execute(
            insert(ACTION).values(**row, **numbers, lease_until_ms=until, approver_policy="requester", risk="normal")
        )
        end_told_actions(connection, WHERE)

    await database.write(confirm)
    assert (await road.inbound())[0].status == ("running" if alive else "done")
