"""One test per recorded failure of confirmations elsewhere, named by its id (agent_cases, channel_cases: confirm)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import gateway.models  # noqa: F401
from agent.intents import read_decision
from config.clock import FixedClock
from config.columns import table_of
from config.database import open_database
from config.schema import Limits
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from memory.models import Message
from tests.contract.confirm.world import CARD, WHERE, World, deploy_tool
from tests.fakes.channel import FakeChannel, wecom_account
from tools import texts
from tools.base import AskPerson, Option, Prepared, ToolContext, ToolResult
from tools.proposals import ACTIONS


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """One deployment on SQLite."""
    database = open_database(f"sqlite:///{tmp_path / 'yizhan.db'}")
    await database.write(lambda c: SQLModel.metadata.create_all(c))
    clock = FixedClock()
    yield World(database, SqlOutbox({"wecom-main": FakeChannel(limit=2000)}, clock, Limits()), clock, wecom_account())
    await database.close()


async def test_c01_a_bare_yes_to_another_question(world: World) -> None:
    """C01: ok after another question of the bot is talk."""
    await world.propose()
    await world.say("要不要我顺便查一下天气？")
    for said in ("ok", "好的", "yes", "可以"):
        assert await world.answer(said) == ""
    assert world.ran == []


async def test_c02_the_second_approval_in_a_run(world: World) -> None:
    """C02: confirmations are read for every open action, not just the first."""
    await world.propose(host="a")
    await world.propose(host="b")
    assert [await world.answer(f"/approve {number}") for number in (2, 1)] == ["已部署 b", "已部署 a"]


async def test_c03_the_clicked_id_decides(world: World) -> None:
    """C03: not the first in line; several open and no code: asked which."""
    first = await world.propose(context=world.context(CARD), host="a")
    second = await world.propose(context=world.context(CARD), host="b")
    assert (await world.answer("确认")).startswith("有 2 项等你确认")
    assert second.card is not None
    found = await world.tools.confirm.decide_card(world.actor(), second.card["button_list"][0]["key"])
    assert found.execute == second.action_id
    assert (await world.row(first.action_id)).status == "pending"


async def test_c05_the_row_is_there_when_the_prompt_is(world: World) -> None:
    """C05: row and prompt are one transaction, so no answer can come too early."""
    outcome = await world.tools.registry.call(world.context(), "deploy", {"host": "a"})
    assert await world.database.read(lambda c: c.execute(select(ROWS)).all()) == []
    await world.store(outcome)
    assert await world.states() == ["pending"]


async def test_c06_something_else_is_answered_and_reminded(world: World) -> None:
    """C06: a normal message is not queued behind the confirmation; its reply carries one line."""
    await world.propose()
    assert await world.answer("今天天气怎么样") == ""
    assert await world.tools.confirm.footer("acme", WHERE) == (
        "另有 1 项等你确认：部署：web-01（还剩 10 分钟）。回复「确认 1」或「取消 1」"
    )


async def test_c07_plain_words_work_and_nothing_is_held(world: World) -> None:
    """C07: 确认 without a slash; while it waits no task and no lease is held."""
    prompt = await world.propose()
    row = await world.row(prompt.action_id)
    assert (row.lease_owner, row.lease_until_ms) == (None, None)
    assert await world.answer("确认") == "已部署 web-01"


@pytest.mark.parametrize("said", ["None", "", "no", "timeout", "approved?", "1", "y", "是不是"])
async def test_c08_what_is_not_a_grant_word_grants_nothing(world: World, said: str) -> None:
    """C08: an allow-list of words; everything else is not a grant."""
    await world.propose()
    await world.answer(said)
    assert world.ran == []


async def test_c09_no_click_is_swallowed(world: World) -> None:
    """C09: after a restart an old button answers; unknown, foreign and used ones say so."""
    prompt = await world.propose(context=world.context(CARD))
    assert prompt.card is not None
    yes = prompt.card["button_list"][0]["key"]
    fresh = world.open().confirm
    assert (await fresh.decide_card(world.actor("lisi"), yes)).text == texts.NOT_YOURS
    assert (await fresh.decide_card(world.actor(), "pa1|gone|0|c")).text == "已过期，未执行。"
    assert (await fresh.decide_card(world.actor(), "rubbish")).text == "已过期，未执行。"
    assert (await fresh.decide_card(world.actor(), yes)).execute == prompt.action_id
    assert (await fresh.decide_card(world.actor(key="m2"), yes)).text == "已确认，正在执行：部署：web-01"


async def test_c10_restart_between_prompt_and_answer(world: World) -> None:
    """C10: rows live in SQL; a restart is no denial."""
    await world.propose()
    assert await world.answer("确认", tools=world.open()) == "已部署 web-01"


async def test_c11_a_stale_id_gets_a_definite_answer(world: World) -> None:
    """C11: expired, not executed; never an error loop."""
    await world.propose()
    world.clock.advance(700)
    assert [await world.answer("确认 1") for _ in range(2)] == ["已过期，没有执行。回复「重新发起」再确认一次"] * 2


async def test_c12_an_approval_is_used_once(world: World) -> None:
    """C12: consumed atomically; using it again has no effect."""
    await world.propose()
    found = await world.hear("确认")
    assert found.execute is not None
    groups = {await world.tools.executor.execute(found.execute) for _ in range(3)}
    assert (len(groups), len(world.ran)) == (1, 1)


async def test_c14_a_duplicate_hears_the_real_outcome(world: World) -> None:
    """C14: never "unknown"."""
    await world.propose()
    said = [await world.answer("确认 1") for _ in range(4)]
    assert said == ["已部署 web-01", *["这项已经执行过了，不会重复执行。结果：已部署 web-01"] * 3]


async def test_c15_only_the_requester(world: World) -> None:
    """C15: another member's id in the callback decides nothing."""
    await world.propose()
    assert await world.answer("确认 1", user="lisi") == texts.NOT_YOURS
    assert await world.answer("取消 1", user="lisi") == texts.NOT_YOURS
    assert await world.states() == ["pending"]


async def test_c16_many_clicks_one_execution(world: World) -> None:
    """C16: N concurrent clicks."""
    prompt = await world.propose(context=world.context(CARD))
    assert prompt.card is not None
    key = prompt.card["button_list"][0]["key"]
    clicks = [world.open().confirm.decide_card(world.actor(key=f"m{n}"), key) for n in range(12)]
    found = await asyncio.gather(*clicks)
    assert [answer.execute for answer in found if answer.execute is not None] == [prompt.action_id]
    assert all(answer.text for answer in found if answer.execute is None)


async def test_c17_the_same_id_with_other_arguments(world: World) -> None:
    """C17: bound to tool, version and arguments, at the decision and right before the call."""
    prompt = await world.propose()
    for change in ({"args_json": '{"host":"evil"}'}, {"tool_version": "2"}):
        row = await world.row(prompt.action_id)
        await world.database.write(lambda c, v=change: c.execute(ACTIONS.update().values(**v)))  # type: ignore[misc]
        found = await world.hear("确认 1")
        await world.tools.executor.execute(found.execute or "")
        assert world.ran == []
        back = {"args_json": row.args_json, "tool_version": row.tool_version, "status": "pending", "answer_group": None}
        await world.database.write(lambda c, v=back: c.execute(ACTIONS.update().values(**v)))  # type: ignore[misc]


async def test_c18_c19_c20_resume_never_asks_again(world: World) -> None:
    """C18 C19 C20: the approved row is all there is; another process runs it without passing the gate once more."""
    await world.propose()
    found = await world.hear("确认")
    assert found.execute is not None
    assert await world.open().executor.execute(found.execute) is not None
    assert len(world.ran) == 1
    assert await world.states() == ["succeeded"]


async def test_c21_c22_parallel_calls_have_ids_of_their_own(world: World) -> None:
    """C21 C22: two calls in one turn: two rows, and each answer reaches its own."""
    context = world.context()
    first = await world.tools.registry.call(context, "deploy", {"host": "a"}, call_id="call_0")
    second = await world.tools.registry.call(context, "deploy", {"host": "b"}, call_id="call_0")
    for outcome in (first, second):
        await world.store(outcome)
        assert outcome.prompt is not None
        await world.deliver(outcome.prompt)
    assert await world.answer("确认 2") == "已部署 b"
    assert [arguments["host"] for _, arguments in world.ran] == ["b"]


async def test_c24_the_stored_call_is_run_not_the_turn(world: World) -> None:
    """C24: what prepares a call has no effects to repeat; the effect happens once, from the stored arguments."""
    prepared: list[str] = []

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        prepared.append("looked")
        return Prepared(arguments)

    world.extra = [deploy_tool(world, prepare=prepare)]
    world.tools = world.open()
    await world.propose()
    assert await world.answer("确认") == "已部署 web-01"
    assert (len(world.ran), world.ran[0][1]) == (1, {"host": "web-01"})


async def test_c25_the_first_decision_wins(world: World) -> None:
    """C25: the second one gets the recorded outcome."""
    await world.propose()
    assert await world.answer("取消 1") == "已取消，没有执行：部署：web-01"
    assert await world.answer("确认 1") == "这项已经取消，没有执行：部署：web-01"


def test_c26_typed_text_is_matched_before_the_assistant() -> None:
    """C26: the reader needs no model and no session."""
    assert read_decision("确认 1") is not None


async def test_c28_a_mixed_batch(world: World) -> None:
    """C28: reads run now, writes are parked one by one."""

    async def look(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("看过了")

    world.extra.append(deploy_tool(world, name="look", tool_class="read", run=look))
    world.tools = world.open()
    context = world.context()
    names = ("look", "deploy", "look", "wipe")
    statuses = [(await world.tools.registry.call(context, name, {"host": name + str(n)})).status for n, name in enumerate(names)]
    assert statuses == ["ok", "awaiting_confirmation", "ok", "awaiting_confirmation"]


async def test_c29_the_history_has_a_result_at_once(world: World) -> None:
    """C29: awaiting_confirmation with its number, so the next model call is valid and cannot claim it is done."""
    outcome = await world.tools.registry.call(world.context(), "deploy", {"host": "a"})
    assert (outcome.status, outcome.summary) == (
        "awaiting_confirmation",
        "已生成待确认操作 #1（部署：a），还没有执行，等用户本人确认。不要说已完成。",
    )


async def test_c31_the_outcome_is_a_note_of_its_own(world: World) -> None:
    """C31: one note; the message that proposed it stays as it was."""
    await world.propose()
    before = await world.database.read(lambda c: c.execute(select(ROWS.c.payload)).scalar_one())
    await world.answer("确认")
    messages = await world.database.read(lambda c: c.execute(select(table_of(Message))).all())
    assert [(line.role, line.text) for line in messages] == [("note", "已部署 web-01")]
    rows = await world.database.read(lambda c: c.execute(select(ROWS.c.payload).order_by(ROWS.c.seq)).scalars().all())
    assert rows[0] == before


async def test_c32_c33_the_card_is_replaced_after_the_commit_with_its_code_once(world: World) -> None:
    """C32 C33 EVT-06: one update per response_code, with the real state; an expired one is told by a message."""
    prompt = await world.propose(context=world.context(CARD))
    assert prompt.card is not None
    key = prompt.card["button_list"][1]["key"]
    for _ in range(2):
        await world.tools.confirm.decide_card(world.actor(key="same"), key, "code1")
    query = select(ROWS.c.payload).where(ROWS.c.kind == "card_update")
    updates = await world.database.read(lambda c: c.execute(query).scalars().all())
    assert [item["payload"] for item in updates] == [{"response_code": "code1", "button": {"replace_name": "已取消"}}]
    await world.propose()
    world.clock.advance(601)
    (group,) = await world.tools.executor.reap()
    assert (await world.texts(group))[0].endswith("已过期，没有执行。回复「重新发起」再确认一次")


@pytest.mark.parametrize("said", ["我确认一下再说", "好的，那地址呢", "麻烦确认预订", "可以的话帮我查查", "是吗，好吧"])
async def test_c34_no_substring_grants(world: World, said: str) -> None:
    """C34: full-message match only."""
    await world.propose()
    await world.answer(said)
    assert world.ran == []


async def test_c35_nothing_changes_arguments_between_approval_and_call(world: World) -> None:
    """C35: a preparation that would change them now withdraws the action instead."""
    await world.propose()

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        return Prepared({**arguments, "host": "other"})

    found = await world.hear("确认")
    world.extra[0] = replace(world.extra[0], prepare=prepare)
    group = await world.open().executor.execute(found.execute or "")
    assert group is not None
    assert await world.texts(group) == ["没有执行：部署：web-01\n原因：参数和你确认的不一致"]
    assert world.ran == []


async def test_cnf_01_the_mention_is_stripped(world: World) -> None:
    """CNF-01: '@机器人 确认 12'."""
    prompt = await world.propose()
    await world.database.write(lambda c: c.execute(ACTIONS.update().where(ACTIONS.c.id == prompt.action_id).values(number=12)))
    assert await world.answer("@机器人 确认 12") == "已部署 web-01"


async def test_cnf_02_only_explicit_words_decide(world: World) -> None:
    """CNF-02: '好的吧？' leaves it pending; '/approve' is no denial."""
    await world.propose()
    assert await world.answer("好的吧？") == ""
    assert await world.states() == ["pending"]
    assert await world.tools.confirm.footer("acme", WHERE) is not None
    assert await world.answer("/approve") == "已部署 web-01"


async def test_cnf_07_continue_never_approves(world: World) -> None:
    """CNF-07: 继续, 1 and (with a parked answer) 嗯 leave the action pending; the number decides, once."""
    await world.propose()
    await world.database.write(lambda c: world.outbox.put(c, world.draft("晚到的答案", key="late")))
    late = {"status": "parked", "park_reason": "pull"}
    await world.database.write(lambda c: c.execute(ROWS.update().where(ROWS.c.idempotency_key == "late:0").values(**late)))
    for said in ("继续", "1", "嗯"):
        assert await world.answer(said) == ""
    assert await world.states() == ["pending"]
    assert await world.answer("确认 1") == "已部署 web-01"


async def test_cnf_09_options_are_numbered_text(world: World) -> None:
    """CNF-09: a tool asks to choose; '回复 选 1 / 选 2' works without any model, and still asks before it acts."""

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        if arguments["host"] == "web":
            options = [Option(name, {"host": name}) for name in ("web-01", "web-02")]
            raise AskPerson("which", user_text="哪一台？", options=options)
        return Prepared(arguments)

    world.extra = [deploy_tool(world, prepare=prepare)]
    world.tools = world.open()
    outcome = await world.tools.registry.call(world.context(), "deploy", {"host": "web"})
    assert outcome.summary == "哪一台？\n1. web-01\n2. web-02\n回复 选 1 / 选 2"
    await world.store(outcome)
    confirm = world.tools.confirm
    assert (await confirm.choose(world.actor("lisi"), 2)).text == "现在没有可以选的项，或者编号不在范围内。"
    assert (await confirm.choose(world.actor(), 3)).text == "现在没有可以选的项，或者编号不在范围内。"
    chosen = await confirm.choose(world.actor(), 2)
    assert chosen.prompt is not None
    assert "主机：“web-02”" in chosen.prompt.text
    await world.store(chosen)
    await world.deliver(chosen.prompt)
    assert (await confirm.choose(world.actor(), 1)).text == "现在没有可以选的项，或者编号不在范围内。"
    assert await world.answer("确认") == "已部署 web-02"


async def test_cnf_09_a_bare_number_answers_what_was_just_asked(world: World) -> None:
    """CNF-09: 「2」 is enough right after the question; later, or without a question, a number is ordinary talk."""

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        if arguments["host"] == "web":
            raise AskPerson(
                "which", user_text="哪一台？", options=[Option(name, {"host": name}) for name in ("web-01", "web-02")]
            )
        return Prepared(arguments)

    world.extra = [deploy_tool(world, prepare=prepare)]
    world.tools = world.open()
    confirm = world.tools.confirm
    assert (await confirm.choose(world.actor(), 2, bare=True)).outcome == "none"
    await world.store(await world.tools.registry.call(world.context(), "deploy", {"host": "web"}))
    assert (await confirm.choose(world.actor("lisi"), 2, bare=True)).outcome == "none"
    chosen = await confirm.choose(world.actor(), 2, bare=True)
    assert chosen.prompt is not None
    assert "主机：“web-02”" in chosen.prompt.text
    world.clock.advance(121)
    assert (await confirm.choose(world.actor(), 2, bare=True)).outcome == "none"
    assert (await confirm.choose(world.actor(), 2)).prompt is not None


async def test_s11_an_invented_argument(world: World) -> None:
    """S11: a structured refusal instead of a TypeError; nothing ran, nothing waits."""
    outcome = await world.tools.registry.call(world.context(), "deploy", json.dumps({"host": "a", "region": "cn-north"}))
    assert outcome.status == "invalid"
    assert "没有“region”这个参数" in outcome.summary
    assert await world.states() == []
