"""Clocks and actions: the very moment of expiry, clocks that jump or differ, and what waited too long (N-08, N-18)."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from config.clock import Clock, FixedClock
from config.database import Database
from config.schema import Limits
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from tests.contract.confirm.world import WHERE, World
from tests.fakes.channel import FakeChannel

HOUR_S = 3600


async def test_the_last_moment_counts_and_the_next_does_not(world: World) -> None:
    """Ten minutes to the millisecond, the same for text, list, footer and card."""
    await world.propose()
    row = (await world.tools.confirm.open_actions("acme", WHERE))[0]
    expires = (await world.row(row.id)).expires_at_ms
    world.clock.advance((expires - 1 - world.clock.now_ms()) / 1000)
    assert [item.number for item in await world.tools.confirm.open_actions("acme", WHERE)] == [1]
    world.clock.advance(0.001)
    assert await world.tools.confirm.open_actions("acme", WHERE) == []
    assert await world.tools.confirm.footer("acme", WHERE) is None
    assert await world.answer("取消 1") == "已过期，没有执行。回复「重新发起」再确认一次"


async def test_asking_about_one_expired_action_keeps_nothing_from_the_other(world: World) -> None:
    """Two expire together; the person asks about one. The other one is told all the same, once."""
    await world.propose(host="a")
    await world.propose(host="b")
    world.clock.advance(601)
    assert (await world.answer("确认 1")).startswith("已过期，没有执行")
    (group,) = await world.tools.executor.reap()
    assert await world.texts(group) == ["「部署：b」没有等到确认，已过期，没有执行。回复「重新发起」再确认一次"]
    assert await world.states() == ["expired", "expired"]


async def test_another_members_word_ends_nothing_silently(world: World) -> None:
    """In a group lisi names zhangsan's expired action: zhangsan is still told."""
    await world.propose()
    world.clock.advance(601)
    await world.answer("确认 1", user="lisi")
    assert len(await world.tools.executor.reap()) == 1


async def test_a_clock_set_back_gives_no_action_a_longer_life(world: World) -> None:
    """An hour back: what waited is over; it would wait for seventy minutes otherwise."""
    await world.propose()
    world.clock.advance(-HOUR_S)
    assert await world.tools.confirm.open_actions("acme", WHERE) == []
    assert (await world.answer("确认 1")).startswith("已过期，没有执行")
    assert world.ran == []


async def test_a_clock_set_forward_expires_and_tells(world: World) -> None:
    """An hour on: the same as waiting."""
    await world.propose()
    world.clock.advance(HOUR_S)
    assert len(await world.tools.executor.reap()) == 1
    assert await world.states() == ["expired"]


async def test_a_second_back_changes_nothing(world: World) -> None:
    """The usual correction of a clock."""
    await world.propose()
    world.clock.advance(-1)
    assert await world.answer("确认 1") == "已部署 web-01"


async def test_an_old_yes_is_not_executed_whoever_comes_first(world: World) -> None:
    """N-18: everything was down for an hour; the worker takes the job before the reaper looks. Two minutes are two minutes."""
    await world.propose()
    found = await world.hear("确认")
    world.clock.advance(120)
    group = await world.open().executor.execute(found.execute or "")
    assert group is not None
    assert await world.texts(group) == ["确认后系统没能及时执行，已撤回，没有执行：部署：web-01\n需要的话请重新告诉我。"]
    assert world.ran == []
    assert await world.tools.executor.reap() == []


async def test_a_yes_from_before_the_clock_was_set_back_is_old(world: World) -> None:
    """N-18: decided "in the future", and nobody began it."""
    await world.propose()
    await world.hear("确认")
    world.clock.advance(-HOUR_S)
    assert len(await world.tools.executor.reap()) == 1
    assert await world.states() == ["withdrawn"]


class Skewed(Clock):
    """A machine whose clock is wrong by so much."""

    def __init__(self, seconds: int) -> None:
        super().__init__()
        self._wrong_ms = seconds * 1000

    def now_ms(self) -> int:
        """What this machine believes."""
        return super().now_ms() + self._wrong_ms


async def test_n_08_machines_whose_clocks_differ_agree_on_expiry(world: World) -> None:
    """N-08: proposed on one machine, looked at on another that is nine minutes behind or ahead: on PostgreSQL both read the
    database's clock. (On SQLite there is one machine.)"""
    database: Database = world.database
    worlds = []
    for seconds in (0, 540, -540):
        clock = Skewed(seconds) if database.dialect == "postgresql" else Clock()
        outbox = SqlOutbox({"wecom-main": FakeChannel(limit=2000)}, clock, Limits())
        worlds.append(World(database, outbox, clock, world.account))  # type: ignore[arg-type]
    here, ahead, behind = worlds
    outcome = await here.tools.registry.call(here.context(), "deploy", {"host": "web-01"})
    await here.store(outcome)
    await database.write(lambda c: c.execute(ROWS.update().values(status="sent", sent_at_ms=1)))
    for other in (ahead, behind):
        (item,) = await other.tools.confirm.open_actions("acme", WHERE)
        assert item.minutes_left == 10
        assert await other.tools.executor.reap() == []
    assert await ahead.answer_now("确认 1") == "已部署 web-01"


async def test_n_08_the_shared_clock_is_the_databases(world: World) -> None:
    """N-08: on PostgreSQL its own, moved by the test clock like everything else; on SQLite this machine's."""
    clock = Skewed(7200)

    def off(connection: Connection) -> float:
        return abs(clock.shared_ms(connection) - Clock().now_ms()) / 1000

    found = await world.database.read(off)
    assert found < 60 if world.database.dialect == "postgresql" else 7100 < found < 7300
    assert isinstance(world.clock, FixedClock)
    moment = await world.database.read(world.clock.shared_ms)
    assert moment == world.clock.now_ms()


async def test_a_prompt_that_never_went_out_does_not_arrive_after_its_time(world: World) -> None:
    """Delivery was held up for eleven minutes: what goes then is the truth; bringing it back works."""
    await world.propose(deliver=False)
    world.clock.advance(601)
    (group,) = await world.tools.executor.reap()
    assert "没能及时发给你" in (await world.texts(group))[0]
    left = await world.database.read(lambda c: c.execute(ROWS.select().where(ROWS.c.status == "pending")).all())
    assert [row.group_id for row in left] == [group]
    again = await world.tools.confirm.reissue(world.actor())
    assert again.prompt is not None


async def test_doubtful_prompts_are_told_of_too(world: World) -> None:
    """N-15: a prompt that may or may not have arrived confirms nothing, and its end is no secret."""
    prompt = await world.propose(deliver=False)
    doubt = {"status": "unknown", "frozen_at_ms": world.clock.now_ms()}
    await world.database.write(lambda c: c.execute(ROWS.update().where(ROWS.c.action_id == prompt.action_id).values(**doubt)))
    assert (await world.answer("确认 1")).endswith(prompt.text)
    world.clock.advance(601)
    assert len(await world.tools.executor.reap()) == 1
    assert await world.states() == ["withdrawn"]


async def test_half_a_prompt_is_none(world: World) -> None:
    """N-17: a prompt cut in two of which one half arrived was not seen."""
    prompt = await world.propose()

    def halve(connection: Connection) -> None:
        row = connection.execute(ROWS.select().where(ROWS.c.action_id == prompt.action_id)).mappings().one()
        second = {key: value for key, value in row.items() if key != "seq"}
        second |= {"idempotency_key": "second", "part": 1, "status": "dead", "sent_at_ms": None}
        connection.execute(ROWS.insert().values(**second))

    await world.database.write(halve)
    assert (await world.answer("确认 1")).endswith(prompt.text)
    assert (await world.row(prompt.action_id)).status == "pending"


@pytest.mark.parametrize("other", ["parked", "passive_reserved", "unknown", "sending", "pending", "sent"])
async def test_a_showing_that_died_is_not_the_last_word(world: World, other: str) -> None:
    """N-15: the first message with the prompt was given up, the second one waits to be pulled, or may have arrived: the action
    waits. When that one is given up, too, it is withdrawn."""
    prompt = await world.propose(deliver=False)
    again = world.draft(prompt.text, key="again", action_id=prompt.action_id)
    await world.database.write(lambda c: world.outbox.put(c, again))

    async def now_are(first: str, second: str) -> list[str]:
        def move(connection: Connection) -> None:
            for key, status in ((f"p:{prompt.action_id}:0", first), ("again:0", second)):
                connection.execute(ROWS.update().where(ROWS.c.idempotency_key == key).values(status=status))

        await world.database.write(move)
        await world.tools.executor.reap()
        return await world.states()

    assert await now_are("dead", other) == ["pending"]
    assert await now_are("dead", "dead") == ["withdrawn"]
