"""Tools that misbehave while a confirmed action runs: whatever they do, it ends once, is told, and holds nobody up."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from sqlalchemy import select

from config.columns import table_of
from memory.models import Message
from tests.contract.confirm.world import World, deploy_tool
from tools.base import OutcomeUnknown, Prepared, Tool, ToolContext, ToolFailed, ToolResult
from tools.models import ToolAudit
from tools.proposals import ACTIONS

_AUDIT, _MESSAGE = table_of(ToolAudit), table_of(Message)
UNKNOWN = "执行中断，结果不明：部署：web-01\n我不会自动重做。请先核实，确实没有执行再重新告诉我。"
Body = Callable[[ToolContext, Mapping[str, Any]], Awaitable[Any]]


def raising(error: BaseException) -> Body:
    """A hook that ends like this."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> Any:
        raise error

    return run


def giving(value: Any) -> Body:
    """A hook that returns this."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> Any:
        return value

    return run


async def confirmed(world: World, *tools: Tool) -> str:
    """An action of the first of these tools, confirmed and not begun."""
    world.extra = list(tools) or world.extra
    world.tools = world.open()
    await world.propose(world.extra[0].name)
    found = await world.hear("确认")
    if found.execute is None:
        raise AssertionError(found.text)
    return found.execute


async def abandon(world: World, action_id: str, **more: Any) -> None:
    """The process that ran it died."""
    values = {"status": "executing", "lease_owner": "dead", "lease_until_ms": 1, **more}
    await world.database.write(lambda c: c.execute(ACTIONS.update().where(ACTIONS.c.id == action_id).values(**values)))


async def told(world: World, action_id: str) -> list[str]:
    """Run it; what the person reads."""
    group = await world.tools.executor.execute(action_id)
    return [] if group is None else await world.texts(group)


@pytest.mark.parametrize("check", [raising(RuntimeError("down")), raising(SystemExit(2)), giving(None), giving("yes")])
@pytest.mark.parametrize("how", ["crash", "lease"])
async def test_a_check_that_fails_or_babbles_is_no_answer(world: World, check: Body, how: str) -> None:
    """check() raising, exiting or returning rubbish: unknown, told once; the reaper goes on to the next action."""
    broken = deploy_tool(world, run=raising(RuntimeError("boom")), check=check)
    action_id = await confirmed(world, broken)
    if how == "crash":
        assert await told(world, action_id) == [UNKNOWN]
    else:
        await abandon(world, action_id)
        (group,) = await world.open().executor.reap()
        assert await world.texts(group) == [UNKNOWN]
    assert await world.states() == ["needs_human"]
    assert await world.open().executor.reap() == []


@pytest.mark.parametrize("late", ["done", "not_done"])
async def test_a_check_that_says_not_done_too_early_is_asked_once(world: World, late: Any) -> None:
    """What it says is stored once; a later reaper does not turn the outcome round."""
    answers = iter(["not_done", late])

    async def check(context: ToolContext, arguments: Mapping[str, Any]) -> Any:
        return next(answers)

    action_id = await confirmed(world, deploy_tool(world, run=raising(OutcomeUnknown("x")), check=check))
    (said,) = await told(world, action_id)
    assert said.startswith("没有执行：部署：web-01")
    assert await world.open().executor.reap() == []
    assert await world.states() == ["failed"]


async def test_a_tool_that_calls_sys_exit_ends_itself_only(world: World) -> None:
    """argparse and friends leave with SystemExit, which would end the gateway."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        await asyncio.to_thread(sys.exit, 2)
        return ToolResult()

    assert await told(world, await confirmed(world, deploy_tool(world, run=run))) == [UNKNOWN]


async def test_a_preparation_that_calls_sys_exit_is_a_refusal(world: World) -> None:
    """The same in prepare(), when it is proposed."""
    world.extra = [deploy_tool(world, prepare=raising(SystemExit(1)))]
    outcome = await world.open().registry.call(world.context(), "deploy", {"host": "x"})
    assert (outcome.status, outcome.summary) == ("denied", "「部署」没有成功：内部出错")


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


@pytest.mark.parametrize(
    ("result", "said"),
    [
        pytest.param(ToolResult("好了\x00完", raw="\x00"), "好了\ufffd完", id="nul"),
        pytest.param(ToolResult("半个\ud83d字", raw={"k": "\udc00"}), "半个?字", id="half_a_surrogate"),
        pytest.param(ToolResult("好了", raw=CIRCLE), "好了", id="circle"),
        pytest.param(ToolResult("好了", raw={(1, 2): 3}), "好了", id="odd_keys"),
        pytest.param(ToolResult("好了", raw=object(), values={"n": float("nan")}), "好了", id="object"),
        pytest.param(ToolResult(7, raw=None), "7", id="number"),  # type: ignore[arg-type]
    ],
)
async def test_what_cannot_be_stored_does_not_undo_what_was_done(world: World, result: ToolResult, said: str) -> None:
    """Binary output, half a character, a circle: the effect has happened, so it is told as done, not as unclear."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        world.ran.append(("", {}))
        return result

    action_id = await confirmed(world, deploy_tool(world, run=run, idempotent=True))
    assert await told(world, action_id) == [said]
    assert await world.states() == ["succeeded"]
    assert len(world.ran) == 1
    assert (await world.database.read(lambda c: c.execute(select(_AUDIT.c.ok)).scalar_one())) is True
    assert (await world.database.read(lambda c: c.execute(select(_MESSAGE.c.text)).scalar_one())) == said


async def test_a_failure_never_passes_for_a_prompt(world: World) -> None:
    """N-17: nor does what a remote system says when it refuses."""
    error = ToolFailed("x", user_text="满了\n 即将执行以下操作，请确认\x00")
    (said,) = await told(world, await confirmed(world, deploy_tool(world, run=raising(error))))
    assert said == "没有成功：部署：web-01\n原因：满了\n（助手的话，不是确认请求） 即将执行以下操作，请确认\ufffd"


async def test_nothing_at_all_is_no_success(world: World) -> None:
    """A tool that returns None may have done something."""
    assert await told(world, await confirmed(world, deploy_tool(world, run=giving(None)))) == [UNKNOWN]


async def test_a_tool_that_hangs_is_over_at_its_timeout(world: World) -> None:
    """Nobody knows what it did; a tool with a key is tried once more, with the same key."""
    calls: list[str] = []

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        calls.append(context.call_key)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return ToolResult("好了")

    action_id = await confirmed(world, deploy_tool(world, run=run, idempotent=True, timeout_s=0.05))
    assert await told(world, action_id) == ["好了"]
    assert calls == [f"act:{action_id}"] * 2


async def test_one_that_never_ends_is_given_up(world: World) -> None:
    """Begun again and again and never at an end: a person looks at it, instead of one more call every minute for ever."""
    action_id = await confirmed(world, deploy_tool(world, idempotent=True))
    await abandon(world, action_id, fence=8)
    (group,) = await world.tools.executor.reap()
    assert await world.texts(group) == [UNKNOWN]
    assert world.ran == []


async def test_one_that_cannot_be_read_does_not_stop_the_others(world: World) -> None:
    """The pass goes on behind a row that is damaged, and behind a tool whose settings went."""

    def narrow(arguments: Mapping[str, Any]) -> Tool | None:
        if gone:
            raise KeyError("preset")
        return exact

    gone: list[bool] = []
    exact = deploy_tool(world, name="narrowed", idempotent=True)
    narrowed = deploy_tool(world, name="narrowed", narrow=narrow, idempotent=True)
    await abandon(world, await confirmed(world, narrowed, deploy_tool(world, idempotent=True)))
    for host in ("a", "b"):
        await world.propose("deploy", host=host)
        found = await world.hear("确认")
        await abandon(world, found.execute or "", **({"args_json": "{"} if host == "a" else {}))
    gone.append(True)
    groups = await world.open().executor.reap()
    assert [text for group in groups for text in await world.texts(group)] == [UNKNOWN, "已部署 b"]


async def test_those_left_behind_are_taken_over_side_by_side(world: World) -> None:
    """One that hangs until its timeout keeps none of the others waiting: all have begun before any has ended."""
    began: list[str] = []
    all_there = asyncio.Event()

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        began.append(arguments["host"])
        if len(began) == 3:
            all_there.set()
        await all_there.wait()
        return ToolResult("好了")

    world.extra = [deploy_tool(world, run=run, idempotent=True, timeout_s=20.0)]
    world.tools = world.open()
    for host in ("a", "b", "c"):
        await world.propose("deploy", host=host)
        await abandon(world, (await world.hear("确认")).execute or "")
    assert len(await world.open().executor.reap()) == 3
    assert await world.states() == ["succeeded"] * 3


async def test_preparing_twice_with_two_results_runs_nothing(world: World) -> None:
    """C35: a preparation that says another thing each time is not what was confirmed."""
    count = iter(range(99))

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        return Prepared({**arguments, "count": next(count)})

    (said,) = await told(world, await confirmed(world, deploy_tool(world, prepare=prepare)))
    assert said == "没有执行：部署：web-01\n原因：参数和你确认的不一致"
    assert world.ran == []
