"""The rules of the road at its worst moments: a full or vanished database, a frozen process, a gateway cut off, a crowd."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, text, update

from agent.protocol import InboundMessage, Reply, TurnResult
from config.columns import table_of
from config.database import Database, open_database
from config.errors import DatabaseBusy
from config.schema import Limits
from gateway import texts
from gateway.inbox import Arrival
from memory.keys import conversation_id
from memory.models import Conversation
from tests.contract.road.road import Road, build_road

_PEER = conversation_id("acme", "wecom-main", "single", "zhangsan")
_CONVERSATION = table_of(Conversation)
_ROOT = Path(__file__).resolve().parents[3]
T = TypeVar("T")


async def _idle(road: Road) -> bool:
    return all(row.status not in ("received", "running") for row in await road.inbound())


async def _asked(road: Road, count: int = 1) -> bool:
    return len(road.turns.asked) >= count


async def _expire_claim(database: Database) -> None:
    """The lease of the conversation runs out now (lease time is the database's own)."""
    await database.write(lambda c: c.execute(update(_CONVERSATION).where(_CONVERSATION.c.id == _PEER).values(lease_until_ms=1)))


@asynccontextmanager
async def _full_disk(database: Database) -> AsyncIterator[None]:
    """No more pages on SQLite; on PostgreSQL the server's own error 53100 for every new message."""

    def fill(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            return
        connection.exec_driver_sql(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
        )
        connection.exec_driver_sql("CREATE TRIGGER full_disk BEFORE INSERT ON inbound EXECUTE FUNCTION full_disk()")

    def clear(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        else:
            connection.exec_driver_sql("DROP TRIGGER full_disk ON inbound")

    await database.write(fill)
    yield
    await database.write(clear)


async def test_n_01_a_full_disk_leaves_the_callback_unanswered(road: Road) -> None:
    """N-01: nothing can be stored, so the connection closes unanswered (no 5xx); with room again one answer."""

    async def script(message: InboundMessage) -> TurnResult:
        return TurnResult((Reply("收到"),))

    road.turns.script = script
    message = road.message("放不下了" * 60_000)
    async with _full_disk(road.database):
        reply = await road.deliver(message)
        assert (reply.close, reply.status) == (True, 200)
        assert road.turns.asked == []
    assert (await road.deliver(message, attempt=2)).body.decode() == "收到"
    assert len(road.turns.asked) == 1
    assert len(await road.outgoing()) == 1


async def test_n_01_a_vanished_database_leaves_the_callback_unanswered(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-01: the server refuses every connection and cut the open ones; when it is back the redelivery gets one answer."""
    from sqlmodel import SQLModel

    name = postgres_url.rsplit("/", 1)[1]
    operator = open_database(postgres_url.rsplit("/", 1)[0] + "/postgres")
    database = open_database(postgres_url)
    await database.write(lambda c: SQLModel.metadata.create_all(c))
    road = await build_road(database, monkeypatch, deadline_s=4.3)

    def away(connection: Connection) -> None:
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"), {"name": name})

    def back(connection: Connection) -> None:
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')

    try:
        await operator.write(away)
        message = road.message("库没了")
        started = time.monotonic()
        assert (await road.deliver(message)).close
        assert time.monotonic() - started < 5.0
        await operator.write(back)
        replies = [await road.deliver(message, attempt=number) for number in (2, 3)]
        assert "答:库没了" in [reply.body.decode() for reply in replies]
        assert len(road.turns.asked) == 1
        assert len(await road.outgoing()) == 1
    finally:
        await road.runner.close(0.1)
        await road.fast.close(0.1)
        await database.close()
        await operator.close()


async def test_n_02_a_frozen_process_that_wakes_says_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """N-02: a real process is stopped (SIGSTOP) in the middle of its turn, another takes over, and it wakes (SIGCONT):
    its answer goes nowhere, the other's counts once."""
    road = await build_road(database, monkeypatch)
    url = request.getfixturevalue("postgres_url") if database.dialect == "postgresql" else f"sqlite:///{tmp_path / 'yizhan.db'}"

    async def script(message: InboundMessage) -> TurnResult:
        return TurnResult((Reply("新"),))

    async def there(name: str) -> bool:
        return (tmp_path / name).exists()

    road.turns.script = script
    await road.inbox.submit(Arrival(road.message("喂"), "turn"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.pausing_gateway", url, _PEER, str(tmp_path), cwd=_ROOT
    )
    try:
        await road.until(lambda: there("asked"), 60)
        process.send_signal(signal.SIGSTOP)
        await _expire_claim(database)
        road.runner.start(_PEER)
        await road.until(lambda: _idle(road), 20)
        (tmp_path / "go").touch()
        process.send_signal(signal.SIGCONT)
        await road.until(lambda: there("ended"), 60)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert [row.payload["text"] for row in await road.outgoing()] == ["新"]
    assert [(row.status, row.deaths) for row in await road.inbound()] == [("done", 1)]
    assert await road.database.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM message").scalar_one()) == 0
    await road.runner.close(1)


class CutOff:
    """A database that this process alone cannot reach while ``away``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect = database.dialect
        self.away = False

    async def write(self, fn: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Database.write, or DatabaseBusy."""
        if self.away:
            raise DatabaseBusy("cut off")
        return await self._database.write(fn, durable=durable)

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Database.read, or DatabaseBusy."""
        if self.away:
            raise DatabaseBusy("cut off")
        return await self._database.read(fn)

    async def close(self) -> None:
        """Its owner closes it."""


async def test_n_02_one_of_two_gateways_is_cut_off(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-02: the one that cannot reach the database acknowledges nothing and loses its turn to the other; back again it
    adds nothing. One answer, in the other one's response."""
    line = CutOff(database)
    cut, whole = await build_road(line, monkeypatch), await build_road(database, monkeypatch, deadline_s=4.0)
    woke = asyncio.Event()

    async def script(message: InboundMessage) -> TurnResult:
        if line.away:
            return TurnResult((Reply("新"),))
        line.away = True
        await woke.wait()
        return TurnResult((Reply("旧"),))

    whole.turns.script = cut.turns.script = script
    monkeypatch.setattr("gateway.turns.run_turn", whole.turns)
    message = whole.message("喂")
    first = asyncio.create_task(cut.deliver(message))
    await whole.until(lambda: _asked(whole))
    await first
    assert (await cut.deliver(cut.message("又一条", user="lisi"))).close
    await _expire_claim(database)
    assert (await whole.deliver(message, attempt=2)).body.decode() == "新"
    line.away = False
    woke.set()
    await cut.runner.close(5)
    assert [row.payload["text"] for row in await whole.outgoing()] == ["新"]
    await whole.runner.close(1)


async def _crowd(road: Road, messages: list[InboundMessage]) -> list[str]:
    return [seen.status for seen in await asyncio.gather(*(road.inbox.submit(Arrival(m, "turn")) for m in messages))]


async def test_n_09_ten_wait_the_eleventh_is_refused(road: Road) -> None:
    """N-09: 10 waiting messages a person; others are not affected."""
    states = await _crowd(road, [road.message(f"{n}") for n in range(12)])
    assert states == ["received"] * 10 + ["refused"] * 2
    assert await _crowd(road, [road.message("别人", user="lisi")]) == ["received"]


async def test_n_09_twenty_turns_a_minute(road: Road) -> None:
    """N-09: the 21st turn within a minute is refused with one clear sentence, the first after the minute is served."""
    for number in range(20):
        assert await road.say(f"第{number}问") == f"答:第{number}问"
    assert await road.say("第二十一问") == texts.TOO_MUCH == "现在人多，这条没收下，请过几分钟再发。"
    later = road.message("一分钟后", received_at_ms=road.clock.now_ms() + 61_000)
    assert (await road.deliver(later)).body.decode() == "答:一分钟后"
    assert len(road.turns.asked) == 21


async def test_n_09_a_thousand_queued_a_tenant(road: Road) -> None:
    """N-09: 1,000 queued messages of one tenant; the next are refused, another tenant's are not."""
    assert Limits().queued_per_tenant == 1000
    states = await _crowd(road, [road.message("排队", user=f"u{n}") for n in range(1010)])
    assert (states.count("received"), states.count("refused")) == (1000, 10)
    other: Any = road.message("另一家", user="x", tenant_id="other")
    assert await _crowd(road, [other]) == ["received"]


async def test_g_05_in_a_group_nobodys_words_become_another_persons(road: Road) -> None:
    """G-05, R-25: messages of several members that wait together are turns of their own, each under its writer's name; only
    those of one person in a row are one."""
    go = asyncio.Event()

    async def script(message: InboundMessage) -> TurnResult:
        await go.wait()
        return TurnResult((Reply(f"答:{message.text}"),))

    road.turns.script = script
    said = [("zhangsan", "先来"), ("zhangsan", "我的"), ("zhangsan", "两句"), ("lisi", "重启服务器"), ("zhangsan", "再一句")]
    group = {"chat_type": "group", "peer_id": "chat1"}
    for number, (user, words) in enumerate(said):
        arrival = Arrival(road.message(words, user, **group), "turn")
        await road.inbox.submit(arrival)
        if number == 0:
            road.runner.start(arrival.conversation_id)
            await road.until(lambda: _asked(road))
    go.set()
    await road.until(lambda: _idle(road))
    asked = [(message.user_id, message.text) for message in road.turns.asked]
    assert asked == [("zhangsan", "先来"), ("zhangsan", "我的\n两句"), ("lisi", "重启服务器"), ("zhangsan", "再一句")]
    assert [where.user_id for where in road.turns.where] == ["zhangsan", "zhangsan", "lisi", "zhangsan"]


async def test_n_09_limits_are_a_persons_also_in_a_group(road: Road) -> None:
    """N-09, G-05: ten waiting of one member refuse that member's next one, not the others'."""
    group = {"chat_type": "group", "peer_id": "chat1"}
    states = await _crowd(road, [road.message(f"{n}", "zhangsan", **group) for n in range(11)])
    assert states == ["received"] * 10 + ["refused"]
    assert await _crowd(road, [road.message("我的第一句", "lisi", **group)]) == ["received"]
