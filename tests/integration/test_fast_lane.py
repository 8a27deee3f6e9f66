"""The fast lane over real confirmations: what it decides, edits, and leaves to the turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from agent import fastlane
from agent.fastlane import FastAnswer
from agent.protocol import Capability, Conversation, Event, InboundMessage
from agent.services import AgentServices
from config.clock import FixedClock
from config.database import open_database
from config.schema import Limits
from gateway.outbox import SqlOutbox
from tests.contract.confirm.world import CARD, PUSH, WHERE, World
from tests.fakes.channel import FakeChannel, wecom_account


class Silent:
    """Nobody to wake."""

    async def ring(self, queue: str, key: str) -> None:
        """Nothing."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """One deployment on SQLite."""
    database = open_database(f"sqlite:///{tmp_path / 'yizhan.db'}")
    await database.write(lambda c: SQLModel.metadata.create_all(c))
    clock = FixedClock()
    yield World(database, SqlOutbox({"wecom-main": FakeChannel(limit=2000)}, clock, Limits()), clock, wecom_account())
    await database.close()


def services(world: World) -> AgentServices:
    """What the fast lane needs; it never asks a model."""
    nobody = cast(Any, None)
    return AgentServices(
        settings=world.tools.contexts.settings,
        clock=world.clock,
        database=world.database,
        outbox=world.outbox,
        bell=Silent(),
        ops=nobody,
        router=nobody,
        registry=world.tools.registry,
        confirm=world.tools.confirm,
    )


PLACE = Conversation("acme", "wecom-main", WHERE, "s1", "zhangsan", "wecom_userid", "single", -1, inbound_seq=9)


def typed(world: World, text: str, **changes: Any) -> InboundMessage:
    """zhangsan types this now."""
    world.clock.advance(1)
    now = world.clock.now_ms()
    values: dict[str, Any] = {
        "platform": "wecom",
        "account_id": "wecom-main",
        "tenant_id": "acme",
        "chat_type": "single",
        "peer_id": "zhangsan",
        "user_id": "zhangsan",
        "id_type": "wecom_userid",
        "kind": "text",
        "text": text,
        "raw_type": "text",
        "message_id": str(now),
        "idempotency_key": f"k{now}",
        "sent_at_ms": now // 1000 * 1000,
        "received_at_ms": now,
    }
    return InboundMessage(**{**values, **changes})


async def ask(world: World, text: str, capability: Capability = PUSH, **changes: Any) -> FastAnswer | None:
    """The fast lane's answer."""
    return await fastlane.answer(services(world), typed(world, text, **changes), PLACE, capability)


async def test_decides_and_hands_over(world: World) -> None:
    """C02 C26 C30: decisions come before anything else; the confirmed action's outcome is the answer."""
    prompt = await world.propose()
    found = await ask(world, "确认")
    assert found is not None
    assert (found.action_id, found.replies) == (prompt.action_id, ())


async def test_ordinary_words_are_left_to_the_turn(world: World) -> None:
    """No open action: 好的 is talk; 确认 is answered clearly; 1 without a parked answer is talk."""
    assert await ask(world, "好的") is None
    assert await ask(world, "改成后天") is None
    assert await ask(world, "1") is None
    assert await ask(world, "今天天气怎么样") is None
    nothing = await ask(world, "确认")
    assert nothing is not None
    assert nothing.replies[0].text == "现在没有等你确认的操作。"


@pytest.mark.parametrize("how", [{"typed": False}, {"kind": "voice"}])
async def test_only_typed_text_decides(world: World, how: dict[str, Any]) -> None:
    """N-16: recognized speech and other kinds never reach the decision reader."""
    await world.propose()
    assert await ask(world, "确认", **how) is None
    assert await world.states() == ["pending"]


async def test_plain_mode_accounts_confirm_nothing(world: World) -> None:
    """N-11: no memory, tools or confirmations."""
    await world.propose()
    assert await ask(world, "确认 1", replace(PUSH, trusted=False)) is None
    listed = await ask(world, "待确认", replace(PUSH, trusted=False))
    assert listed is not None
    assert listed.replies[0].text == "这个账号没有开启加密，不能使用工具。"
    assert await world.states() == ["pending"]


async def test_edits(world: World) -> None:
    """改成后天: the day moves, the hour stays; 改为3台: the count; each a new prompt, nothing executed."""
    context = world.context()
    await world.propose("deploy", context=context, host="web-01", count=2, at="2023-11-20T15:00:00+08:00")
    day = await ask(world, "改成后天")
    assert day is not None
    assert day.action_id is None
    assert "时间：“2023-11-17T15:00:00+08:00”" in day.replies[0].text
    assert "台数：2" in day.replies[0].text
    assert day.replies[0].action_id is not None
    for write in day.writes:
        await world.database.write(lambda c, write=write: write(c))
    assert await world.states() == ["superseded", "pending"]
    hour = await ask(world, "改到四点")
    assert hour is not None
    assert "时间：“2023-11-17T16:00:00+08:00”" in hour.replies[0].text
    count = await ask(world, "改为3台")
    assert count is not None
    assert "台数：3" in count.replies[0].text
    unclear = await ask(world, "换成蓝色的")
    assert unclear is not None
    assert unclear.replies[0].text == "没看懂要改哪一项，请说清楚，例如「主机改成…」。"
    named = await ask(world, "主机改成 web-02")
    assert named is not None
    assert "主机：“web-02”" in named.replies[0].text
    assert world.ran == []


async def test_list_and_reissue(world: World) -> None:
    """待确认, 重新发起."""
    await world.propose()
    listed = await ask(world, "待确认")
    assert listed is not None
    assert "#1 部署：web-01" in listed.replies[0].text
    world.clock.advance(601)
    again = await ask(world, "重新发起")
    assert again is not None
    assert again.replies[0].text.startswith("即将执行以下操作，请确认")
    assert again.replies[0].source == "confirm_prompt"
    assert world.ran == []


async def test_what_others_wrote_is_never_our_markup(world: World) -> None:
    """N-16: answers that repeat a result or a summary go out as a tool's words, which are stripped of links."""
    await world.propose(host='<a href="weixin://x">y</a>')
    done = await ask(world, "取消")
    assert done is not None
    assert done.replies[0].source == "tool"
    assert "<a" not in done.replies[0].text


async def test_a_card_goes_with_its_buttons(world: World) -> None:
    """C09 C15: the click's actor is the callback's; foreign cards are not ours to answer."""
    prompt = await world.propose(context=world.context(CARD))
    assert prompt.card is not None
    key = prompt.card["button_list"][1]["key"]
    click = Event("card_click", "template_card_event", key=key, task_id=prompt.action_id, response_code="rc")
    other = typed(world, "", kind="event", event=click, user_id="lisi")
    foreign = await fastlane.card(services(world), other, PLACE, CARD)
    assert foreign is not None
    assert foreign.replies[0].text == "这项操作只能由发起的人确认或取消，没有执行。"
    mine = await fastlane.card(services(world), typed(world, "", kind="event", event=click), PLACE, CARD)
    assert mine is not None
    assert mine.replies[0].text == "已取消，没有执行：部署：web-01"
    unknown = replace(click, key="vote-1")
    silent = await fastlane.card(services(world), typed(world, "", kind="event", event=unknown), PLACE, CARD)
    assert silent == FastAnswer(())


async def test_asked_twice_is_asked_about_once(world: World) -> None:
    """The same call proposed in two turns: the newer prompt replaces the older."""
    await world.propose(host="web-01")
    await world.propose(host="web-01")
    assert await world.states() == ["superseded", "pending"]


async def test_a_number_may_answer_a_model(world: World) -> None:
    """CNF-09: 选 2 with no question of ours is talk where a model may have asked; else one is told that nothing waits."""
    said = await ask(world, "选 2")
    assert said is not None
    assert said.replies[0].text == "现在没有可以选的项，或者编号不在范围内。"
    world.tools = world.open(models=({"name": "m", "base_url": "http://127.0.0.1:9/v1", "model": "m", "local": True},))
    assert await ask(world, "选 2") is None
