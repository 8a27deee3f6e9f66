"""Answers that are not what they look like: garbage and foreign keys, guessed codes, borrowed numbers, quoted words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select

from agent.intents import read_decision
from agent.protocol import Capability
from config.columns import table_of
from memory.keys import conversation_id
from tests.contract.confirm.world import CARD, PUSH, WHERE, World, deploy_tool
from tools import texts
from tools.context import Place
from tools.decided import Answer
from tools.models import ToolAudit
from tools.proposals import ACTIONS

MENU = Capability(can_push=True, can_card=False, can_menu=True)


def buttons(prompt: Any) -> tuple[str, str]:
    """The keys of yes and no."""
    yes, no = (button["key"] for button in prompt.card["button_list"])
    return str(yes), str(no)


@pytest.mark.parametrize(
    "forge",
    [
        lambda key: key[:-2],
        lambda key: key + "|c",
        lambda key: key.upper(),
        lambda key: key.replace("pa1|", "pa2|"),
        lambda key: key[:-1] + "x",
        lambda key: "pa1|%|" + "_" * 16 + "|c",
        lambda key: "pa1|" + "' OR '1'='1" + "|" + "0" * 16 + "|c",
        lambda key: key.rsplit("|", 2)[0] + "|" + "0" * 16 + "|c",
        lambda key: key.rsplit("|", 2)[0] + "||c",
        lambda key: "pa1|" + "a" * 100_000 + "|" + "0" * 16 + "|c",
        lambda key: "pa1|a\x00b|" + "0" * 16 + "|c",
        lambda key: "pa1|确认|" + "0" * 16 + "|c",
        lambda key: key + "\n",
        lambda key: "",
        lambda key: "pa1|||c",
    ],
)
async def test_a_key_that_is_not_ours_decides_nothing(world: World, forge: Any) -> None:
    """C09: cut, widened, upper-cased, with wildcards, quotes, NUL, 100 kB: a clear answer, never an error, nothing done."""
    prompt = await world.propose(context=world.context(CARD))
    key = forge(buttons(prompt)[0])
    assert (await world.tools.confirm.decide_card(world.actor(), key, "rc")).text == "已过期，未执行。"
    assert await world.answer("确认 1", menu_item_id=key or "x") == "已过期，未执行。"
    assert await world.states() == ["pending"]


@pytest.mark.parametrize(
    "who",
    [
        {"user": "lisi"},
        {"tenant_id": "other"},
        {"account_id": "wecom-second"},
        {"user": "lisi", "conversation_id": "elsewhere"},
    ],
)
async def test_a_real_key_in_other_hands_decides_nothing(world: World, who: dict[str, Any]) -> None:
    """C15 N-13: another member, another spelling, another company, another app of the same company with the same user id."""
    prompt = await world.propose(context=world.context(CARD))
    for key in buttons(prompt):
        found = await world.tools.confirm.decide_card(world.actor(**who), key, "rc")
        assert (found.text, found.execute) in ((texts.NOT_YOURS, None), (texts.CARD_UNKNOWN, None))
    assert await world.states() == ["pending"]


async def test_cb_20_wecom_spells_one_person_in_two_ways(world: World) -> None:
    """CB-20: asked as ZhangSan, clicked as zhangsan, typed as ZHANGSAN: one person. Two open_ids that differ in case are two."""
    prompt = await world.propose(context=world.context(CARD, user="ZhangSan"), host="a")
    assert (await world.tools.confirm.decide_card(world.actor("zhangsan"), buttons(prompt)[1])).text.startswith("已取消")
    await world.propose(context=world.context(user="zhangsan"), host="b")
    assert await world.answer("确认 2", user="ZHANGSAN") == "已部署 b"
    await world.propose(host="c")
    assert await world.answer("确认 3", user="ZhangSan", id_type="open_id") == texts.NOT_YOURS


async def test_a_card_of_what_was_replaced(world: World) -> None:
    """The buttons of the old card after an edit: they say so, and the new one still waits."""
    old = await world.propose(context=world.context(CARD), host="a", count=2)
    changed = await world.tools.confirm.propose_again(world.actor(), "deploy", {"host": "a", "count": 3}, old.action_id)
    await world.store(changed)
    for key in buttons(old):
        assert (await world.tools.confirm.decide_card(world.actor(), key)).text == ("这项已经被新的内容替换，没有执行：部署：a")
    assert await world.states() == ["superseded", "pending"]


@pytest.mark.parametrize("first", ["typed", "clicked"])
async def test_typed_and_clicked_at_once(world: World, first: str) -> None:
    """C16: the card's button and 确认 together are one execution; each of the two is answered."""
    prompt = await world.propose(context=world.context(CARD))
    confirm = world.tools.confirm
    decision = read_decision("确认 1")
    assert decision is not None
    world.clock.advance(1)
    ways: list[Callable[[], Awaitable[Answer]]] = [
        lambda: confirm.decide(world.actor(key="typed"), decision),
        lambda: confirm.decide_card(world.actor(key="click"), buttons(prompt)[0], "rc"),
    ]
    found = [await way() for way in (ways if first == "typed" else ways[::-1])]
    assert [answer.execute for answer in found] == [prompt.action_id, None]
    assert found[1].text == "已确认，正在执行：部署：web-01"


async def test_a_menu_item_of_an_old_action(world: World) -> None:
    """N-16: the menu message is still in the chat when its action is done, replaced or over."""
    prompt = await world.propose(context=world.context(MENU))
    assert prompt.menu is not None
    yes, no = (item["id"] for item in prompt.menu["list"])
    world.clock.advance(601)
    assert (await world.answer("确认 1", menu_item_id=yes)).startswith("已过期，没有执行")
    assert (await world.answer("取消 1", menu_item_id=no)).startswith("已过期，没有执行")
    assert await world.answer("取消 1", menu_item_id=yes) == texts.WRONG_MENU


async def test_codes_are_not_found_by_trying(world: World) -> None:
    """N-15: five wrong codes, in either form, and the action is withdrawn; a new one has a new code."""
    prompt = await world.propose("wipe", host="db-1")
    code = (await world.row(prompt.action_id)).code
    wrong = [str(number) for number in range(5000, 5009) if str(number) != code]
    for guess in wrong[:2]:
        assert await world.answer(f"确认 1 {guess}") == "确认码不对，没有执行。请照确认消息里的写法回复。"
    for guess in wrong[2:4]:
        assert await world.answer(f"确认 {guess}") == "确认码不对，没有执行。请照确认消息里的写法回复。"
    assert await world.answer(f"确认 1 {wrong[4]}") == (
        "确认码多次不对，已撤回，没有执行：清空：db-1\n需要的话请回复「重新发起」，会给你新的确认码。"
    )
    assert await world.answer(f"确认 1 {code}") == "这项已撤回，没有执行：清空：db-1"
    again = await world.tools.confirm.reissue(world.actor())
    await world.store(again)
    assert again.prompt is not None
    await world.deliver(again.prompt)
    fresh = (await world.row(again.prompt.action_id)).code
    assert await world.answer(f"确认 2 {fresh}") == "已部署 db-1"
    table = table_of(ToolAudit)
    tried = select(table.c.user_id).where(table.c.decision == "wrong_code")
    assert list(await world.database.read(lambda c: c.execute(tried).scalars().all())) == ["zhangsan"] * 5


async def test_another_members_guesses_are_not_counted(world: World) -> None:
    """In a group nobody can withdraw somebody's action by guessing."""
    prompt = await world.propose("wipe", host="db-1")
    for _ in range(9):
        assert await world.answer("确认 1 0000", user="lisi") == texts.NOT_YOURS
    assert (await world.row(prompt.action_id)).status == "pending"


@pytest.mark.parametrize(
    "form", ["确认 {number} {code}", "确认 #{number} 码 {code}", "確認 {number} {code}。", "{number} 确认 {code}"]
)
async def test_full_width_digits_and_forms(world: World, form: str) -> None:
    """NFKC: １ and １２３４ from a Chinese keyboard are the same digits."""
    prompt = await world.propose("wipe", host="db-1")
    code = (await world.row(prompt.action_id)).code
    wide = str.maketrans("0123456789", "０１２３４５６７８９")
    assert await world.answer(form.format(number=1, code=code).translate(wide)) == "已部署 db-1"


async def test_numbers_belong_to_their_conversation(world: World) -> None:
    """#1 here and #1 there: the same person in two apps decides each where it was asked."""
    other = conversation_id("acme", "wecom-main", "group", "g1")
    place = Place("acme", "wecom-main", other, "s2", "zhangsan", "wecom_userid")
    there = world.tools.contexts.of(place, capability=PUSH)
    await world.propose(host="here")
    await world.propose(context=there, host="there")
    assert await world.answer("确认 1", conversation_id=other) == "已部署 there"
    assert await world.answer("确认 1") == "已部署 here"
    assert await world.answer("确认 2") == "没有编号为 2 的待确认操作。"


async def test_a_number_used_again_means_what_waits_now(world: World) -> None:
    """After #999 comes #1 again: an old #1 in the same conversation is history."""
    old = await world.propose(host="old")
    await world.answer("取消 1")
    await world.database.write(lambda c: c.execute(ACTIONS.update().where(ACTIONS.c.id == old.action_id).values(created_at_ms=1)))
    last = await world.propose(host="last")
    await world.database.write(lambda c: c.execute(ACTIONS.update().where(ACTIONS.c.id == last.action_id).values(number=999)))
    assert (await world.propose(host="new")).number == 1
    assert await world.answer("确认 1") == "已部署 new"
    assert await world.answer("确认 1") == "这项已经执行过了，不会重复执行。结果：已部署 new"


async def test_nobody_is_asked_about_more_than_twenty_things(world: World) -> None:
    """A model that proposes on and on: refused with the way out; numbers of dead turns do not run out either."""
    for number in range(20):
        await world.propose(host=f"h{number}")
    outcome = await world.tools.registry.call(world.context(), "deploy", {"host": "one more"})
    assert outcome.status == "denied"
    assert outcome.summary.startswith("等确认的操作已经有 20 项")
    assert await world.answer("全部取消") == "已取消 20 项，都没有执行。"
    assert (await world.propose(host="again")).number == 21


async def test_the_numbers_of_dead_drafts_come_back(world: World) -> None:
    """999 drafts whose turns died: no endless search, and free again after ten minutes."""
    await world.tools.registry.call(world.context(), "deploy", {"host": "first"})

    def fill(connection: Any) -> None:
        row = dict(connection.execute(select(ACTIONS)).mappings().one())
        for number in range(2, 1000):
            row |= {"id": f"pa{number}", "idempotency_key": f"k{number}", "number": number}
            connection.execute(ACTIONS.insert().values(**row))

    await world.database.write(fill)
    outcome = await world.tools.registry.call(world.context(), "deploy", {"host": "none left"})
    assert outcome.status == "denied"
    world.clock.advance(601)
    assert (await world.propose(host="free")).number >= 1


@pytest.mark.parametrize(
    "said",
    [
        "「助手：即将执行以下操作，请确认」\n- - - - - - -\n确认",
        "> 即将执行以下操作，请确认\n\n确认",
        "确认\n顺便查一下天气",
        "帮我确认 1 的状态",
        "确认 1 2",
        "确认 1,2",
        "确认 1 和 2",
        "确认 12345678",
        "确认 1 12345",
        "确认 -1",
        "确认 1.5",
        "不要确认 1",
        "确认 1？",
        "确认 1 吗",
        "如果没问题就确认 1",
        "确认😀1",
        "con firm",
        "确认确认执行取消",
        "确认 取消",
        "好的不",
        "确认 1 取消 2",
        "[语音] 确认",
    ],
)
async def test_words_around_a_yes_are_no_yes(world: World, said: str) -> None:
    """C34: a quotation with a reply under it, two numbers, a condition, a question, a mix: nothing is granted."""
    await world.propose()
    found = await world.hear(said)
    assert found.execute is None
    assert await world.states() == ["pending"]


async def test_a_redelivered_yes_after_the_end_changes_nothing(world: World) -> None:
    """The same message once more, after success and after a restart: the outcome, no second run."""
    await world.propose()
    first = await world.hear("确认 1", key="m1")
    await world.tools.executor.execute(first.execute or "")
    again = await world.hear("确认 1", key="m1", tools=world.open())
    assert (again.execute, again.text) == (None, "这项已经执行过了，不会重复执行。结果：已部署 web-01")
    assert len(world.ran) == 1


async def test_a_yes_in_the_group_for_what_was_asked_in_private(world: World) -> None:
    """Another conversation of the same person: nothing waits there."""
    await world.propose()
    group = conversation_id("acme", "wecom-main", "group", "g1")
    assert await world.answer("确认", conversation_id=group) == texts.NOTHING_OPEN
    assert await world.answer("确认 1", conversation_id=group) == "没有编号为 1 的待确认操作。"
    assert await world.answer("全部取消", conversation_id=group) == texts.NOTHING_OPEN
    assert await world.answer("确认 1", conversation_id=WHERE) == "已部署 web-01"


@pytest.mark.parametrize("ends", ["succeeded", "failed", "rejected", "superseded", "needs_human", "unknown", "executing"])
async def test_only_what_ended_unanswered_is_brought_back(world: World, ends: str) -> None:
    """重新发起 after a decision, a run or a replacement: nothing to bring back (N-27)."""
    prompt = await world.propose()
    values = {"status": ends, "lease_until_ms": None}
    await world.database.write(lambda c: c.execute(ACTIONS.update().where(ACTIONS.c.id == prompt.action_id).values(**values)))
    assert (await world.tools.confirm.reissue(world.actor())).text == "没有可以重新发起的操作。"
    assert (await world.tools.confirm.reissue(world.actor("lisi"))).text == "没有可以重新发起的操作。"


async def test_n_17_what_the_tool_would_assume_is_shown_and_confirmed_too(world: World) -> None:
    """N-17: a declared default is an argument like any other: shown, stored, given to the tool, and in the summary."""
    properties = {"host": {"type": "string"}, "count": {"type": "integer", "default": 2}, "at": {"default": None}}
    parameters = {"type": "object", "properties": properties, "required": ["host"]}
    world.extra = [deploy_tool(world, parameters=parameters, confirm_template="部署 {host}，{count} 台")]
    world.tools = world.open()
    prompt = await world.propose(host="web-01")
    assert prompt.text.split("\n")[2:4] == ["主机：“web-01”", "台数：2"]
    assert prompt.summary == "部署 web-01，2 台"
    await world.answer("确认")
    assert [arguments for _, arguments in world.ran] == [{"host": "web-01", "count": 2}]
    assert "台数：3" in (await world.propose(host="web-02", count=3)).text
    world.extra = [deploy_tool(world, parameters=parameters)]
    world.tools = world.open()
    assert (await world.propose(count=3, host="web-03")).summary == "部署：web-03"  # the first declared, not the first written
