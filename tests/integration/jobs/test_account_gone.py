"""An account that left the settings while work was open: its own rows end, and everybody else's go on."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select, update

from config import lease
from config.columns import table_of
from config.ports import Draft
from gateway.delivery import Delivery
from gateway.models import Inbound
from gateway.parts import open_delivery
from gateway.reaper import HOMELESS_MS, Reaper, overdue
from gateway.services import Services
from memory.models import Conversation
from tests.integration.jobs.steps import OUTBOX, job_row, outgoing, queue_job
from tools.builtin.reminder import fire_due
from tools.models import Reminder

INBOUND, REMINDER, CONVERSATION = table_of(Inbound), table_of(Reminder), table_of(Conversation)


async def _message(services: Services, account: str, lane: str, age_ms: int) -> int:
    now = services.clock.now_ms()
    where = f"c-{account}"
    known = {"id": where, "tenant_id": "default", "account_id": account, "chat_type": "single", "peer_id": "u", "user_id": "u"}
    row: dict[str, Any] = {"key": f"{account}-{lane}-{age_ms}", "tenant_id": "default", "account_id": account}
    row |= {"conversation_id": where, "user_id": "u", "kind": "text", "lane": lane, "status": "received", "deliveries": 1}
    row |= {"attempts": 0, "deaths": 0, "stop_requested": False, "sent_at_ms": now - age_ms, "received_at_ms": now - age_ms}

    def store(connection: Any) -> int:
        if connection.execute(select(CONVERSATION.c.id).where(CONVERSATION.c.id == where)).first() is None:
            connection.execute(insert(CONVERSATION).values(**known, id_type="wecom_userid", fence=0, created_at_ms=1))
        return int(connection.execute(insert(INBOUND).values(**row).returning(INBOUND.c.seq)).scalar_one())

    return await services.database.write(store)


async def _status(services: Services, seq: int) -> tuple[str, str | None]:
    query = select(INBOUND.c.status, INBOUND.c.error_code).where(INBOUND.c.seq == seq)
    return tuple(await services.database.read(lambda c: c.execute(query).one()))


async def test_open_work_of_a_removed_account_ends_and_is_not_rung(services: Services) -> None:
    """Nothing is rung for it, a process with newer settings has a quarter of an hour, then the rows end."""
    recent = await _message(services, "removed", "turn", 60_000)
    old = [await _message(services, "removed", lane, HOMELESS_MS + 1_000) for lane in ("turn", "fast")]
    mine = await _message(services, "wecom-main", "turn", HOMELESS_MS + 1_000)
    job = await queue_job(services, account_id="removed", created_at_ms=services.clock.now_ms() - HOMELESS_MS - 1_000)
    now, accounts = services.clock.now_ms(), tuple(services.channels)
    rung = await services.database.write(lambda c: overdue(c, now, accounts=accounts))
    assert rung == [("turn", "c-wecom-main")]
    await Reaper(services).pass_once()
    assert [await _status(services, seq) for seq in old] == [("failed", "no_account")] * 2
    assert (await job_row(services, job))["status"] == "dead"
    assert await _status(services, recent) == ("received", None)
    assert await _status(services, mine) == ("received", None)


async def test_a_reminder_of_a_removed_account_stops_nobody_elses(services: Services) -> None:
    now = services.clock.now_ms()

    def store(connection: Any) -> None:
        for number, account in enumerate(("removed", "wecom-main")):
            row: dict[str, Any] = {
                "id": f"r{number}",
                "tenant_id": "default",
                "account_id": account,
                "conversation_id": f"c-{account}",
            }
            row |= {"user_id": "zhangsan", "owner_key": f"o-{account}", "number": 1, "text": f"开会 {account}"}
            row |= {"next_due_ms": now - 2_000 + number, "repeat": "none", "status": "active", "idempotency_key": f"k{number}"}
            connection.execute(insert(REMINDER).values(**row, created_at_ms=now - 60_000))

    await services.database.write(store)
    await fire_due(services.database, services.outbox, services.clock)
    assert [(row["account_id"], row["status"]) for row in await outgoing(services)] == [
        ("removed", "dead"),
        ("wecom-main", "pending"),
    ]
    left = select(REMINDER.c.id).where(REMINDER.c.status == "active")
    assert await services.database.read(lambda c: c.execute(left).all()) == []


async def test_an_answer_reserved_for_a_removed_account_does_not_stop_delivery(services: Services) -> None:
    """Its reservation runs out, the row ends, and the sweep goes on to what other processes left."""
    draft = Draft(
        idempotency_key="in:1",
        tenant_id="default",
        account_id="mp-main",
        conversation_id="c1",
        user_id="o1",
        session_id=None,
        cause="inbound",
        cause_id="1",
        text="答案",
        reserve_ms=60_000,
    )

    def leave(connection: Any) -> None:
        services.outbox.put(connection, draft)
        past = {"reserved_until_ms": lease.now_ms(connection) - 1, "account_id": "removed"}
        connection.execute(update(OUTBOX).values(**past))

    await services.database.write(leave)
    delivery: Delivery = open_delivery(services)
    await delivery.pass_once()
    (row,) = await outgoing(services)
    assert (row["status"], row["errmsg"]) == ("dead", "this account is not configured any more")
