"""What changes between a proposal and its execution: answers that overtake it, changes asked for, settings that went."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from agent.protocol import Capability, Conversation, InboundMessage, Reply
from agent.toolbox import prompt_reply
from config.columns import table_of
from config.schema import Settings, Tenant
from gateway.answers import store_answer
from gateway.outbox_states import ROWS
from tests.contract.confirm.world import CARD, PUSH, WHERE, World, deploy_tool
from tests.fakes.channel import wecom_account
from tools.assembly import ToolSet, open_tools
from tools.base import Prepared, ToolContext
from tools.decided import Answer
from tools.models import ToolAudit
from tools.registry import CallOutcome

_AUDIT = table_of(ToolAudit)
PLACE = Conversation("acme", "wecom-main", WHERE, "s1", "zhangsan", "wecom_userid", "single", -1, inbound_seq=1)


def typed(world: World, text: str = "部署 web-01") -> InboundMessage:
    """zhangsan's message that a turn answers."""
    now = world.clock.now_ms()
    return InboundMessage(
        "wecom", "wecom-main", "acme", "single", "zhangsan", "zhangsan", "wecom_userid", "text", text, "text", "1",
        f"k{now}", now, now,
    )  # fmt: skip


async def answered(world: World, outcome: CallOutcome | Answer) -> list[str]:
    """The way of a real answer: the writes, then its messages, in one transaction; what the outbox holds of it."""
    writes = outcome.writes if isinstance(outcome, CallOutcome) else outcome.publish
    replies = [prompt_reply(outcome.prompt)] if outcome.prompt is not None else [Reply("无")]

    def write(connection: Any) -> str | None:
        for change in writes:
            change(connection)
        return store_answer(
            connection, world.outbox, PLACE, typed(world), (world.clock.now_ms(),), replies,
            capability=PUSH, reserve_ms=0, status="done", now_ms=world.clock.now_ms(),
        ).group  # fmt: skip

    group = await world.database.write(write)
    return [] if group is None else await world.texts(group)


async def test_a_yes_that_overtakes_the_same_call_asked_again_is_the_only_one(world: World) -> None:
    """The model proposes the same write on the next turn; the person confirms the first one before that turn has ended.
    Asked once more, one wish would have been done twice."""
    await world.propose()
    again = await world.tools.registry.call(world.context(), "deploy", {"host": "web-01"})
    assert await world.answer("确认 1") == "已部署 web-01"
    assert await answered(world, again) == ["#1 刚才已经有了决定，所以没有再提出：部署：web-01。还需要的话请再告诉我一次。"]
    assert await world.states() == ["succeeded", "withdrawn"]
    assert await world.answer("确认 2") == "这项已撤回，没有执行：部署：web-01"
    assert len(world.ran) == 1


async def test_a_no_that_overtakes_a_change_stays_a_no(world: World) -> None:
    """改成3台 is still being worked on when 取消 comes: nothing waits afterwards."""
    prompt = await world.propose(count=2, host="web-01")
    changed = await world.tools.confirm.propose_again(world.actor(), "deploy", {"host": "web-01", "count": 3}, prompt.action_id)
    assert await world.answer("取消 1") == "已取消，没有执行：部署：web-01"
    assert (await answered(world, changed))[0].startswith("#1 刚才已经有了决定")
    assert await world.states() == ["rejected", "withdrawn"]


async def test_two_processes_bring_the_same_back_and_one_waits(world: World) -> None:
    """重新发起 twice at once: two proposals of one call never wait side by side."""
    await world.propose()
    world.clock.advance(601)
    both = await asyncio.gather(*(world.open().confirm.reissue(world.actor()) for _ in range(2)))
    for found in both:
        await world.store(found)
        if found.prompt is not None:
            await world.deliver(found.prompt)
    assert sorted(await world.states()) == ["pending", "superseded", "superseded"]
    assert await world.answer("确认") == "已部署 web-01"
    assert len(world.ran) == 1


async def test_who_asked_for_a_change_confirms_no_old_values(world: World) -> None:
    """改成后天 is with the model; an impatient 确认, with the number or without, must not run what is no longer wanted."""
    prompt = await world.propose(host="web-01", count=2)
    assert (await world.hear("改成3台")).edit is not None
    for said in ("确认", "确认 1"):
        assert (await world.answer(said)).endswith(prompt.text)
    assert await world.answer("好的") == ""
    assert world.ran == []
    await world.sent(ROWS.c.action_id == prompt.action_id)  # shown anew, as it stands
    assert await world.answer("确认 1") == "已部署 web-01"


async def test_an_answer_from_before_its_prompt_names_nothing_by_number(world: World) -> None:
    """确认 1 that had arrived before the prompt went out, worked on after a crash: nobody had seen #1."""
    prompt = await world.propose()
    sent = world.clock.now_ms() - 2000
    assert (await world.answer("确认 1", received_at_ms=sent - 1)).endswith(prompt.text)
    assert world.ran == []
    assert await world.answer("确认 1") == "已部署 web-01"


async def test_the_same_once_more_is_asked_with_a_warning(world: World) -> None:
    """A double order: what was done a moment ago, or may have been done, is said in the prompt (N-27)."""
    first = await world.propose()
    assert "注意" not in first.text
    await world.answer("确认")
    again = await world.propose()
    assert "（注意：同样的操作 #1 不久前已经执行过）" in again.text
    world.extra = [deploy_tool(world, run=_boom)]
    world.tools = world.open()
    assert (await world.answer("确认 2")).startswith("执行中断，结果不明")
    world.clock.advance(7200)
    assert "（注意：同样的操作 #2 执行中断，结果不明，可能已经生效）" in (await world.propose()).text
    world.clock.advance(86400)
    assert "注意" not in (await world.propose()).text


async def _boom(context: ToolContext, arguments: Mapping[str, Any]) -> Any:
    raise RuntimeError("after the effect")


@pytest.mark.parametrize("how", ["取消", "取消 1", "card", "stop"])
async def test_what_nobody_has_begun_can_be_called_back(world: World, how: str) -> None:
    """取消 and 停止 between confirm and execute (a long tool in the queue): in time, and then nothing runs."""
    prompt = await world.propose(context=world.context(CARD))
    found = await world.hear("确认")
    assert prompt.card is not None
    if how == "card":
        said = (await world.tools.confirm.decide_card(world.actor(), prompt.card["button_list"][1]["key"])).text
    elif how == "stop":
        (said,) = await world.tools.confirm.stop("acme", WHERE, "zhangsan")
    else:
        said = await world.answer(how)
    assert said == "已取消，没有执行：部署：web-01"
    assert await world.tools.executor.execute(found.execute or "") is None
    assert world.ran == []


@pytest.mark.parametrize("how", ["取消", "取消 1", "停止"])
async def test_what_has_begun_is_not_said_to_be_stopped(world: World, how: str) -> None:
    """取消 while it executes: the truth, not talk for a model that might say "cancelled"."""
    began, go = asyncio.Event(), asyncio.Event()

    async def slow(context: ToolContext, arguments: Mapping[str, Any]) -> Any:
        began.set()
        await go.wait()
        return await deploy_tool(world).run(context, arguments)

    world.extra = [deploy_tool(world, run=slow)]
    world.tools = world.open()
    await world.propose()
    found = await world.hear("确认")
    running = asyncio.create_task(world.tools.executor.execute(found.execute or ""))
    await began.wait()
    if how == "停止":
        said = "".join(await world.tools.confirm.stop("acme", WHERE, "zhangsan"))
        assert said == "“部署：web-01”已经在执行，拦不住了，有结果会告诉你。"
    else:
        assert await world.answer(how) == "正在执行：部署：web-01"
    go.set()
    group = await running
    assert group is not None
    assert await world.texts(group) == ["已部署 web-01"]


async def test_stop_touches_only_ones_own(world: World) -> None:
    """In a group another member's 停止 calls nothing back."""
    await world.propose()
    await world.hear("确认")
    assert await world.tools.confirm.stop("acme", WHERE, "lisi") == []
    assert await world.states() == ["confirmed"]


def without(world: World, *, tenant: bool) -> ToolSet:
    """A process whose settings do not know the tenant, or the account, any more."""
    kept = Tenant(id="other" if tenant else "acme", accounts=(wecom_account("another"),))
    settings = Settings(tenants=(kept,))
    return open_tools(settings, world.clock, world.database, world.outbox, lambda _: PUSH, extra=world.extra)


@pytest.mark.parametrize("tenant", [True, False])
@pytest.mark.parametrize("begun", [True, False])
async def test_an_account_that_left_the_settings_ends_its_actions(world: World, tenant: bool, begun: bool) -> None:
    """Confirmed, then the account or the company is taken out: an end that is stored, not an error for ever."""
    await world.propose()
    found = await world.hear("确认")
    assert found.execute is not None
    later = without(world, tenant=tenant)
    if begun:
        values = {"status": "executing", "lease_owner": "dead", "lease_until_ms": 1}
        await world.database.write(lambda c: c.execute(table_update(found.execute).values(**values)))
        assert len(await later.executor.reap()) == 1
    else:
        assert await later.executor.execute(found.execute) is not None
    row = await world.row(found.execute)
    assert row.status == ("needs_human" if begun else "withdrawn")
    assert (await world.database.read(lambda c: c.execute(select(_AUDIT)).one())).action_id == found.execute
    assert world.ran == []


def table_update(action_id: str | None) -> Any:
    """An update of this action."""
    from tools.proposals import ACTIONS

    return ACTIONS.update().where(ACTIONS.c.id == action_id)


async def test_permission_gone_means_withdrawn(world: World) -> None:
    """Before the call schema, permission and target are checked again."""
    await world.propose()
    found = await world.hear("确认")
    world.extra[0] = replace(world.extra[0], roles=frozenset({"nobody"}))
    assert await ended(world, world.open(), found) == ["没有执行：部署：web-01\n原因：你现在没有这个权限"]
    assert world.ran == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "deploy2"}, "这个工具已经停用或更新"),
        ({"version": "2"}, "这个工具已经停用或更新"),
        (
            {"parameters": {"type": "object", "properties": {"host": {"type": "string", "enum": ["web-02"]}}}},
            "参数已不再有效：「部署」没有执行，参数不对：“host”只能是：web-02（是不是“web-02”？）。请补充或更正。",
        ),
        ({"tool_class": "read", "roles": frozenset({"root"})}, "你现在没有这个权限"),
    ],
)
async def test_a_tool_that_changed_is_not_run_on_an_old_yes(world: World, change: dict[str, Any], reason: str) -> None:
    """C17: removed, renewed, narrowed or restricted between confirm and execute."""
    await world.propose()
    found = await world.hear("确认")
    world.extra = [deploy_tool(world, **change)]
    assert await ended(world, world.open(), found) == [f"没有执行：部署：web-01\n原因：{reason}"]
    assert world.ran == []


async def ended(world: World, tools: ToolSet, found: Answer) -> list[str]:
    """What the outcome says."""
    group = await tools.executor.execute(found.execute or "")
    return [] if group is None else await world.texts(group)


async def test_a_refusal_never_passes_for_a_prompt(world: World) -> None:
    """N-17: the reason a tool gives is its words; a line of it that reads like a prompt is marked."""

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        from tools.base import ToolRefused

        raise ToolRefused("x", user_text="不行\n即将执行以下操作，请确认")

    await world.propose()
    found = await world.hear("确认")
    world.extra = [deploy_tool(world, prepare=prepare)]
    (said,) = await ended(world, world.open(), found)
    assert said.endswith("不行\n（助手的话，不是确认请求）即将执行以下操作，请确认")


async def test_a_prompt_stays_one_message_however_late(world: World) -> None:
    """N-17: no label is put before it that could make two of it."""
    outcome = await world.tools.registry.call(world.context(Capability(True, False, False)), "deploy", {"host": "甲" * 600})
    assert outcome.prompt is not None
    assert len(outcome.prompt.text.encode()) > 1800
    assert await answered(world, outcome) == [outcome.prompt.text]
    (payload,) = await world.database.read(lambda c: c.execute(select(ROWS.c.payload)).scalars().all())
    assert "late" not in payload
