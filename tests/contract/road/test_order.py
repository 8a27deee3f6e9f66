"""Order, joining, claims: one turn at a time per conversation, in arrival order, over all processes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from sqlalchemy import update

from agent.protocol import InboundMessage, JobRequest, Reply, TurnResult
from config.database import Database
from config.errors import YizhanError
from config.schema import Limits
from gateway import texts
from gateway.sessions import claim_conversation
from memory.keys import conversation_id
from memory.models import Conversation, Message
from tests.contract.road.road import INBOUND, Road, ScriptedTurns, build_road

_PEER = conversation_id("acme", "wecom-main", "single", "zhangsan")


async def _idle(road: Road) -> bool:
    return all(row.status not in ("received", "running") for row in await road.inbound())


async def test_fragments_that_wait_together_are_one_turn(road: Road) -> None:
    """Gateway §3: 帮我 / 建个待办 / 明天上午 while another turn runs become one message in order; one answer, three rows."""
    go = asyncio.Event()

    async def script(message: InboundMessage) -> TurnResult:
        if message.text == "先来":
            await go.wait()
        return TurnResult((Reply(f"答:{message.text}"),))

    road.turns.script = script
    first = asyncio.create_task(road.say("先来"))
    await road.until(lambda: _asked(road, 1))
    rest = [asyncio.create_task(road.say(text)) for text in ("帮我", "建个待办", "明天上午")]

    async def stored() -> bool:
        return len(await road.inbound()) == 4

    await road.until(stored)
    go.set()
    await asyncio.gather(first, *rest)
    await road.until(lambda: _idle(road))
    assert [m.text for m in road.turns.asked] == ["先来", "帮我\n建个待办\n明天上午"]
    rows = await road.inbound()
    assert len({row.answer_group for row in rows[1:]}) == 1
    assert [row.joined_seq for row in rows] == [None, None, rows[1].seq, rows[1].seq]


async def test_fragments_of_one_slow_turn_get_one_receipt(road: Road) -> None:
    """N-03: three messages of one breath are one turn: one receipt, not three, and one answer."""
    first, rest = asyncio.Event(), asyncio.Event()

    async def script(message: InboundMessage) -> TurnResult:
        await (first if message.text == "先来" else rest).wait()
        return TurnResult((Reply(f"答:{message.text}"),))

    road.turns.script = script
    begun = asyncio.create_task(road.say("先来"))
    await road.until(lambda: _asked(road, 1))
    fragments = [asyncio.create_task(road.say(text)) for text in ("帮我", "建个待办", "明天上午")]

    async def stored() -> bool:
        return len(await road.inbound()) == 4

    await road.until(stored)
    first.set()
    await begun
    told = await asyncio.gather(*fragments)
    rest.set()
    await road.until(lambda: _idle(road))
    assert sorted(told) == ["", "", texts.RECEIPT]
    assert [row.payload["text"] for row in await road.outgoing()][-1] == "答:帮我\n建个待办\n明天上午"


async def _asked(road: Road, count: int) -> bool:
    return len(road.turns.asked) >= count


async def test_turns_of_one_conversation_never_overlap_in_two_processes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-02, SES-13: 20 messages of one person to two gateways: one at a time, every one answered, in order of arrival."""
    turns = ScriptedTurns()

    async def script(message: InboundMessage) -> TurnResult:
        await asyncio.sleep(0.01)
        return TurnResult((Reply(f"答:{message.text}"),))

    turns.script = script
    roads = [await build_road(database, monkeypatch, turns=turns, deadline_s=4.0) for _ in range(2)]
    numbered = [roads[0].message(f"第{n}条", kind="voice", typed=False) for n in range(10)]
    for number, message in enumerate(numbered):
        await roads[number % 2].inbox.submit(_arrival(message))
    for road in roads:
        road.runner.start(_PEER)
    await roads[0].until(lambda: _idle(roads[0]), 15)
    assert turns.most == 1
    assert [m.text for m in turns.asked] == [f"第{n}条" for n in range(10)]
    for road in roads:
        await road.runner.close(1)


def _arrival(message: InboundMessage):  # type: ignore[no-untyped-def]
    from gateway.inbox import Arrival

    return Arrival(message, "single")


async def test_a_holder_that_lost_its_claim_writes_nothing(road: Road) -> None:
    """N-02: a paused process wakes after its lease was taken over; its answer is discarded, the other's counts."""
    stolen = asyncio.Event()

    async def script(message: InboundMessage) -> TurnResult:
        if not stolen.is_set():
            await road.database.write(
                lambda c: c.execute(update(Conversation).where(Conversation.id == _PEER).values(lease_until_ms=1))
            )
            assert await road.database.write(lambda c: claim_conversation(c, _PEER, "another")) is not None
            stolen.set()
        return TurnResult((Reply("旧"),), writes=(_write_message,))

    road.turns.script = script
    await road.say("喂")
    assert await road.outgoing() == []
    assert await road.database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM message").scalar_one()) == 0
    assert [row.status for row in await road.inbound()] == ["running"]


def _write_message(connection) -> None:  # type: ignore[no-untyped-def]
    connection.execute(
        Message.__table__.insert().values(  # type: ignore[attr-defined]
            tenant_id="acme",
            conversation_id=_PEER,
            session_id="s",
            user_id="u",
            role="user",
            text="x",
            created_at_ms=1,
        )
    )


async def test_a_turn_whose_process_died_runs_again_and_five_deaths_end_with_an_apology(road: Road) -> None:
    """N-07, SES-16, OA5-22: a running row without a living claim is taken over; the fifth death is the last."""
    message = road.message("会死的")
    await road.inbox.submit(_turn_arrival(message))
    await road.database.write(lambda c: c.execute(update(INBOUND).values(status="running", deaths=0)))
    road.runner.start(_PEER)
    await road.until(lambda: _idle(road))
    assert [(row.status, row.deaths) for row in await road.inbound()] == [("done", 1)]

    second = road.message("总是死")
    await road.inbox.submit(_turn_arrival(second))
    await road.database.write(
        lambda c: c.execute(update(INBOUND).where(INBOUND.c.key == second.idempotency_key).values(status="running", deaths=4))
    )
    road.runner.start(_PEER)
    await road.until(lambda: _idle(road))
    assert [m.text for m in road.turns.asked] == ["会死的"]
    assert (await road.outgoing())[-1].payload["text"] == texts.APOLOGY.format(question="总是死")


def _turn_arrival(message: InboundMessage):  # type: ignore[no-untyped-def]
    from gateway.inbox import Arrival

    return Arrival(message, "turn")


async def test_a_turn_that_fails_twice_is_apologized_for(road: Road) -> None:
    """N-07: two attempts that fail by themselves, then one apology, and the next message is served as ever."""
    fail = True

    async def script(message: InboundMessage) -> TurnResult:
        if fail:
            raise YizhanError("broken", code="broken")
        return TurnResult((Reply("好了"),))

    road.turns.script = script
    assert await road.say("坏的") == texts.APOLOGY.format(question="坏的")
    assert len(road.turns.asked) == 2
    fail = False
    assert await road.say("再问") == "好了"
    assert [(row.status, row.error_code) for row in await road.inbound()] == [("failed", "broken"), ("done", None)]


async def test_a_failed_attempt_is_remembered_by_the_row(road: Road) -> None:
    """N-07: should the process die now, the next one knows that one attempt failed by itself already."""
    seen: list[int] = []

    async def script(message: InboundMessage) -> TurnResult:
        seen.append((await road.inbound())[0].attempts)
        if len(seen) == 1:
            raise YizhanError("once", code="once")
        return TurnResult((Reply("好了"),))

    road.turns.script = script
    assert await road.say("问") == "好了"
    assert seen == [0, 1]


async def test_too_many_waiting_messages_are_refused_and_say_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-09, SES-20: the receipt depends on what was stored; a refused message says it was not taken on, every time."""
    road = await build_road(database, monkeypatch, limits=Limits(waiting_per_person=1))
    hold = asyncio.Event()

    async def script(message: InboundMessage) -> TurnResult:
        await hold.wait()
        return TurnResult((Reply("答"),))

    road.turns.script = script
    tasks = [asyncio.create_task(road.say("一"))]
    await road.until(lambda: _asked(road, 1))
    tasks.append(asyncio.create_task(road.say("二")))

    async def two() -> bool:
        return len(await road.inbound()) == 2

    await road.until(two)
    third = road.message("三")
    assert (await road.deliver(third)).body.decode() == texts.TOO_MUCH
    assert (await road.deliver(third, attempt=2)).body.decode() == texts.TOO_MUCH
    hold.set()
    await asyncio.gather(*tasks)
    await road.until(lambda: _idle(road))
    assert [m.text for m in road.turns.asked] == ["一", "二"]
    await road.runner.close(1)


async def test_long_work_is_a_job_bound_to_person_and_session(road: Road) -> None:
    """S001-39, S001-36: the receipt is the answer, the job carries user, session and conversation; rung after commit."""

    async def script(message: InboundMessage) -> TurnResult:
        return TurnResult((Reply(texts.RECEIPT),), "deferred", job=JobRequest("doctor", {"x": 1}))

    road.turns.script = script
    assert await road.say("诊断一下吧") == texts.RECEIPT
    row = (await road.database.read(lambda c: c.exec_driver_sql("SELECT * FROM job").mappings().all()))[0]
    assert (row["user_id"], row["conversation_id"], row["name"], row["status"]) == ("zhangsan", _PEER, "doctor", "queued")
    assert row["session_id"] == road.turns.where[0].session_id
    assert ("task", row["id"]) in road.bell.rings
    assert [(view.question, view.state) for view in await road.ops.work(_where(road))] == [("诊断一下吧", "排队中")]
    await road.database.write(lambda c: c.execute(update(INBOUND).values(body={"event": "card_click", "text": ""})))
    assert [view.question for view in await road.ops.work(_where(road))] == ["诊断"]


async def test_stop_reaches_a_running_turn_at_once(road: Road) -> None:
    """Gateway §3: 停止 is a fast lane: the running turn of the same conversation hears of it without waiting for it."""
    heard = asyncio.Event()

    async def wait_for_stop(*arguments: object) -> TurnResult:
        await arguments[-1].wait()  # type: ignore[attr-defined]
        heard.set()
        return TurnResult((Reply("停了"),), "stopped")

    road.turns.__class__.__call__, original = wait_for_stop, road.turns.__class__.__call__  # type: ignore[method-assign]
    try:
        task = asyncio.create_task(road.say("长活"))
        await road.until(lambda: _running(road))
        where = (await road.ops.work(_where(road)))[0]
        assert (where.question, where.state) == ("长活", "处理中")
        assert await road.ops.stop(_where(road)) == 1
        assert await task == "停了"
        assert heard.is_set()
    finally:
        road.turns.__class__.__call__ = original  # type: ignore[method-assign]
    assert [row.status for row in await road.inbound()] == ["stopped"]


async def _running(road: Road) -> bool:
    return any(row.status == "running" for row in await road.inbound())


def _where(road: Road):  # type: ignore[no-untyped-def]
    from agent.protocol import Conversation as Where

    return Where("acme", "wecom-main", _PEER, "s", "zhangsan", "wecom_userid", "single", -1)


async def test_a_gateway_that_leaves_hands_its_turns_on(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-02: a turn that does not end in the grace, and a message that comes in the last moment, are rung for at once, and
    another process takes them without waiting for a lease."""
    leaving = await build_road(database, monkeypatch, deadline_s=0.3)

    async def never(message: InboundMessage) -> TurnResult:
        await asyncio.Event().wait()
        raise AssertionError(message)

    leaving.turns.script = never
    await leaving.say("做到一半")
    await leaving.runner.close(0.01)
    assert leaving.bell.rings == [("turn", _PEER)]
    assert [(row.status, row.deaths) for row in await leaving.inbound()] == [("received", 0)]
    await leaving.say("最后一刻", user="lisi")
    last = conversation_id("acme", "wecom-main", "single", "lisi")
    await leaving.until(lambda: _rung(leaving, last))
    heir = await build_road(database, monkeypatch)
    for conversation in (_PEER, last):
        await heir.dispatcher.run_waiting(conversation, cast(Any, heir.channels))
    assert [(row.status, row.deaths) for row in await heir.inbound()] == [("done", 0), ("done", 0)]
    await heir.runner.close(0.1)


async def _rung(road: Road, conversation: str) -> bool:
    return ("turn", conversation) in road.bell.rings
