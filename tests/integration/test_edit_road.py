"""A change typed in the chat, down the whole fast lane: a new proposal takes the old one's place, and nothing runs."""

from __future__ import annotations

import pytest

from tests.contract.confirm.world import World
from tests.integration.test_fast_lane import ask, world

__all__ = ["world"]

AT = "2023-11-16T15:00:00+08:00"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("不对，改成后天", "时间：“2023-11-17T15:00:00+08:00”"),
        ("改一下时间到11月18号", "时间：“2023-11-18T15:00:00+08:00”"),
        ("不是，是后天上午", "时间：“2023-11-17T09:00:00+08:00”"),
        ("好的，改成后天", "时间：“2023-11-17T15:00:00+08:00”"),
        ("1 改成后天", "时间：“2023-11-17T15:00:00+08:00”"),
        ("#1改为3台", "台数：3"),
        ("2台改成5台", "台数：5"),
        ("web-01换成web-02", "主机：“web-02”"),
        ("改为2台", "台数：2"),
    ],
)
async def test_the_old_one_is_superseded_and_nothing_runs(world: World, text: str, line: str) -> None:
    """S001-88: the same turn never executes; the new prompt is the one that counts."""
    await world.propose("deploy", host="web-01", count=2, at=AT)
    found = await ask(world, text)
    assert found is not None
    assert found.action_id is None
    assert line in found.replies[0].text
    await world.database.write(lambda c: [write(c) for write in found.writes])
    assert await world.states() == ["superseded", "pending"]
    late = await ask(world, "确认 1")
    assert late is not None
    assert late.action_id is None
    assert world.ran == []


@pytest.mark.parametrize(
    "text",
    [
        "改成什么好？",
        "能改成后天吗",
        "改成后天会不会太晚",
        "别改成后天",
        "已经改成后天了",
        "可以可以但是…",
        "好的，不过先等等",
        "不取消",
        "先别确认",
    ],
)
async def test_talk_about_a_change_changes_nothing(world: World, text: str) -> None:
    """C34 CNF-02: a question or a tale goes to the turn; what waits goes on waiting."""
    await world.propose("deploy", host="web-01", count=2, at=AT)
    assert await ask(world, text) is None
    assert await world.states() == ["pending"]
    assert world.ran == []


async def test_a_change_of_an_unknown_number_says_so(world: World) -> None:
    """27 改成后天 with no 27: told, not taken for the only open one."""
    await world.propose("deploy", host="web-01", at=AT)
    found = await ask(world, "27 改成后天")
    assert found is not None
    assert "27" in found.replies[0].text
    assert await world.states() == ["pending"]
