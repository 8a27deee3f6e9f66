"""Confirming, rejecting, several at once, the newest-message rule, cards: agent.md §5 with N-15 to N-18."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from agent.protocol import Capability
from gateway.outbox_states import ROWS
from tests.contract.confirm.world import CARD, WHERE, World
from tools import texts
from tools.proposals import ACTIONS, short_digest


async def test_a_confirmed_action_runs_once_and_says_so(world: World) -> None:
    """S001-48 S001-49 C14 C25: shown, not executed; executed after 确认, once; the second 确认 hears the real outcome."""
    prompt = await world.propose()
    assert prompt.text == (
        "即将执行以下操作，请确认\n操作：部署\n主机：“web-01”\n回复「确认 1」执行，回复「取消 1」放弃（10 分钟内有效）"
    )
    assert world.ran == []
    assert await world.answer("确认") == "已部署 web-01"
    assert world.ran == [(f"act:{prompt.action_id}", {"host": "web-01"})]
    assert await world.answer("确认") == "这项已经执行过了，不会重复执行。结果：已部署 web-01"
    assert await world.answer("取消 1") == "这项已经执行过了，不会重复执行。结果：已部署 web-01"
    assert len(world.ran) == 1


@pytest.mark.parametrize(
    "word", ["确认", "确认执行", "执行", "确认 1", "确认#1", "1 确认", "好的", "可以", "👌🏽", "ok", "@机器人 确认 1"]
)
async def test_words_that_confirm(world: World, word: str) -> None:
    """CNF-01 C07 C26: plain words decide, the mention is stripped, whatever else is running."""
    await world.propose()
    assert await world.answer(word) == "已部署 web-01"


@pytest.mark.parametrize(
    "word", ["好的吧？", "确认吗", "继续", "1", "随便", "确认一下时间", "可以吗", "", "timeout", "None", "嗯……"]
)
async def test_words_that_do_not(world: World, word: str) -> None:
    """CNF-02 CNF-07 C08 C34: anything that is not an explicit word is not a grant."""
    await world.propose()
    assert await world.answer(word) == ""
    assert await world.states() == ["pending"]


async def test_slash_approve_is_no_denial(world: World) -> None:
    """CNF-02: /approve names the act; it confirms and never denies."""
    await world.propose()
    assert await world.answer("/approve") == "已部署 web-01"


async def test_rejected_is_not_run(world: World) -> None:
    """取消 ends it; a late 确认 hears the state."""
    await world.propose()
    assert await world.answer("取消") == "已取消，没有执行：部署：web-01"
    assert await world.answer("确认 1") == "这项已经取消，没有执行：部署：web-01"
    assert await world.states() == ["rejected"]
    assert world.ran == []


async def test_a_weak_word_counts_only_right_after_the_prompt(world: World) -> None:
    """C01 N-15: 好的 that answers something else is talk."""
    await world.propose()
    await world.say("顺便问一下，晚饭吃了吗？")
    assert await world.answer("好的") == ""
    assert await world.states() == ["pending"]


async def test_a_strong_word_after_something_else_shows_the_prompt_again(world: World) -> None:
    """N-15: the prompt is shown again, and only an answer to that counts."""
    prompt = await world.propose()
    await world.say()
    assert await world.answer("确认") == f"请先看清这一项，再回复：\n{prompt.text}"
    assert world.ran == []
    assert await world.answer("确认 1") == "已部署 web-01"


async def test_an_answer_from_before_the_prompt_does_not_count(world: World) -> None:
    """N-15: older than the answer's CreateTime."""
    prompt = await world.propose()
    sent = world.clock.now_ms() - 2000
    assert (await world.answer("确认", said_at_ms=sent // 1000 * 1000 - 1000)).endswith(prompt.text)
    assert (await world.answer("确认", received_at_ms=sent - 1)).endswith(prompt.text)
    assert world.ran == []


async def test_an_undelivered_prompt_confirms_nothing(world: World) -> None:
    """N-15: the person has not seen it, number or not; past its time it is withdrawn, and its prompt with it: what arrives
    late is the truth, not a question that is over."""
    prompt = await world.propose(deliver=False)
    assert (await world.answer("确认 1")).endswith(prompt.text)
    assert (await world.answer("确认")).endswith(prompt.text)
    world.clock.advance(601)
    (group,) = await world.tools.executor.reap()
    assert await world.texts(group) == ["「部署：web-01」的确认消息没能及时发给你，已撤回，没有执行。回复「重新发起」再确认一次"]
    assert await world.states() == ["withdrawn"]
    prompts = await world.database.read(lambda c: c.execute(select(ROWS.c.status).where(ROWS.c.action_id.is_not(None))).all())
    assert [row.status for row in prompts] == ["cancelled"]
    assert await world.tools.executor.reap() == []


async def test_the_reaper_withdraws_what_delivery_gave_up(world: World) -> None:
    """N-15: a prompt whose message died is withdrawn within a pass; one that arrived is not touched."""
    lost = await world.propose(deliver=False, host="a")
    kept = await world.propose(host="b")
    dead = ROWS.update().where(ROWS.c.action_id == lost.action_id).values(status="dead")
    await world.database.write(lambda c: c.execute(dead))
    await world.tools.executor.reap()
    assert (await world.row(lost.action_id)).status == "withdrawn"
    assert (await world.row(kept.action_id)).status == "pending"
    assert await world.answer("确认 1") == "这项已撤回，没有执行：部署：a"


async def test_weak_words_wait_while_answers_are_parked(world: World) -> None:
    """CNF-07: with a parked answer 嗯 may mean that answer; #1 stays pending and 确认 1 still works."""
    await world.propose()
    await world.database.write(lambda c: world.outbox.put(c, world.draft("晚到的答案", key="late")))
    parked = {"status": "parked", "park_reason": "pull"}
    await world.database.write(lambda c: c.execute(update(ROWS).where(ROWS.c.idempotency_key == "late:0").values(**parked)))
    assert await world.answer("嗯") == ""
    assert await world.states() == ["pending"]
    assert await world.answer("确认 1") == "已部署 web-01"


async def test_several_open_need_the_number(world: World) -> None:
    """C03 G-01: with several open 确认 lists them and grants nothing; the number decides exactly that one."""
    await world.propose(host="web-01")
    await world.propose(host="web-02")
    assert await world.answer("确认") == (
        "有 2 项等你确认，请带上编号回复，例如「确认 2」：\n#1 部署：web-01（还剩 10 分钟）\n#2 部署：web-02（还剩 10 分钟）"
    )
    assert await world.answer("好的") == await world.answer("确认")
    assert await world.answer("全部确认") == (
        "为了安全，确认要一项一项来，请带上编号回复，例如「确认 2」：\n"
        "#1 部署：web-01（还剩 10 分钟）\n#2 部署：web-02（还剩 10 分钟）"
    )
    assert world.ran == []
    assert await world.answer("确认 2") == "已部署 web-02"
    assert await world.answer("确认 1") == "已部署 web-01"


async def test_reject_all(world: World) -> None:
    """全部取消."""
    await world.propose(host="web-01")
    await world.propose(host="web-02")
    assert await world.answer("全部取消") == "已取消 2 项，都没有执行。"
    assert await world.states() == ["rejected", "rejected"]
    assert await world.answer("全部取消") == "现在没有等你确认的操作。"


async def test_one_at_a_time_in_the_same_run(world: World) -> None:
    """C02 C21 C22: the second approval works like the first; one row and number per call."""
    first, second = await world.propose(host="a"), await world.propose(host="b")
    assert (first.number, second.number) == (1, 2)
    assert await world.answer("确认 1") == "已部署 a"
    assert await world.answer("确认") == "已部署 b"


async def test_expired(world: World) -> None:
    """Ten minutes; late 确认 is told so and 重新发起 proposes again, never executes."""
    await world.propose()
    world.clock.advance(600)
    assert await world.answer("确认 1") == "已过期，没有执行。回复「重新发起」再确认一次"
    assert await world.answer("确认") == "已过期，没有执行。回复「重新发起」再确认一次"
    again = await world.tools.confirm.reissue(world.actor())
    assert again.prompt is not None
    assert world.ran == []
    await world.store(again)
    await world.deliver(again.prompt)
    assert await world.states() == ["superseded", "pending"]
    assert await world.answer("确认") == "已部署 web-01"
    assert (await world.tools.confirm.reissue(world.actor())).text == "没有可以重新发起的操作。"


async def test_the_reaper_tells_that_it_expired(world: World) -> None:
    """A prompt that was seen and not answered is told once."""
    await world.propose()
    world.clock.advance(601)
    (group,) = await world.tools.executor.reap()
    assert await world.texts(group) == ["「部署：web-01」没有等到确认，已过期，没有执行。回复「重新发起」再确认一次"]
    assert await world.tools.executor.reap() == []


async def test_an_edit_replaces_and_never_runs(world: World) -> None:
    """改成3台: new row, the old one superseded, a new prompt with a new number; the old number is dead."""
    await world.propose(host="web-01", count=2)
    edit = await world.hear("改成3台")
    assert edit.edit is not None
    changed = await world.tools.confirm.propose_again(world.actor(), "deploy", {**edit.edit.arguments, "count": 3}, edit.edit.id)
    await world.store(changed)
    assert changed.prompt is not None
    assert "台数：3" in changed.prompt.text
    assert "（替换 #1，原来的不再有效）" in changed.prompt.text
    await world.deliver(changed.prompt)
    assert world.ran == []
    assert await world.states() == ["superseded", "pending"]
    assert await world.answer("确认 1") == "这项已经被新的内容替换，没有执行：部署：web-01"
    assert await world.answer("确认") == "已部署 web-01"
    assert world.ran[0][1]["count"] == 3


async def test_an_edit_with_several_open_asks_which(world: World) -> None:
    """An edit applies only to exactly one open action."""
    await world.propose(host="a")
    await world.propose(host="b")
    answer = await world.hear("改成3台")
    assert answer.edit is None
    assert answer.text.startswith("有 2 项等你确认")


async def test_high_risk_needs_the_code(world: World) -> None:
    """N-15: high risk always needs the code."""
    prompt = await world.propose("wipe", host="db-1")
    code = (await world.row(prompt.action_id)).code
    assert prompt.text.endswith(f"高风险操作：回复「确认 1 {code}」执行，回复「取消 1」放弃（10 分钟内有效）")
    wrong = "1111" if code != "1111" else "2222"
    for said in ("好的", "确认", "确认 1"):
        assert await world.answer(said) == "这是高风险操作，需要带上确认码：请照确认消息里的写法回复「确认 1 四位码」。"
    assert await world.answer(f"确认 1 {wrong}") == "确认码不对，没有执行。请照确认消息里的写法回复。"
    assert world.ran == []
    assert await world.answer(f"确认 1 {code}") == "已部署 db-1"


async def test_the_code_alone_names_the_action(world: World) -> None:
    """确认 4821 is the action with that code."""
    prompt = await world.propose("wipe", host="db-1")
    code = (await world.row(prompt.action_id)).code
    assert await world.answer(f"确认 {code}") == "已部署 db-1"


async def test_another_person_decides_nothing(world: World) -> None:
    """C15 G-01: only the requester; the other one is told so."""
    await world.propose()
    for said in ("确认", "确认 1", "取消 1", "好的", "全部取消"):
        assert await world.answer(said, user="lisi") in (texts.NOT_YOURS, texts.NOTHING_OPEN)
    assert await world.states() == ["pending"]
    assert await world.answer("确认") == "已部署 web-01"


async def test_changed_arguments_are_not_run(world: World) -> None:
    """C17 C35 G-01: what runs is what was shown; a row whose arguments changed is withdrawn right before the call."""
    prompt = await world.propose()
    change = {"args_json": '{"host":"web-99"}'}
    await world.database.write(lambda c: c.execute(ACTIONS.update().where(ACTIONS.c.id == prompt.action_id).values(**change)))
    assert await world.answer("确认") == "没有执行：部署：web-01\n原因：参数和你确认的不一致"
    assert await world.states() == ["withdrawn"]
    assert world.ran == []


async def test_a_changed_digest_is_not_confirmed(world: World) -> None:
    """C17: the compare-and-set checks the digest that was shown."""
    prompt = await world.propose(context=world.context(CARD))
    key = f"pa1|{prompt.action_id}|{'0' * 16}|c"
    assert (await world.tools.confirm.decide_card(world.actor(), key)).text == "已过期，未执行。"
    assert await world.states() == ["pending"]


async def test_state_lives_in_sql_only(world: World) -> None:
    """C05 C10 C11 C19 G-17: restart between prompt and answer, and between confirm and execute, changes nothing."""
    await world.propose()
    found = await world.hear("确认", tools=world.open())
    assert found.execute is not None
    group = await world.open().executor.execute(found.execute)
    assert group is not None
    assert await world.texts(group) == ["已部署 web-01"]


async def test_the_same_message_after_a_crash_goes_on(world: World) -> None:
    """C18 C20: confirmed and not executed; the redelivered 确认 runs it without asking again."""
    await world.propose()
    first = await world.hear("确认", key="m7")
    again = await world.hear("确认 1", key="m7", tools=world.open())
    assert again.execute == first.execute
    other = await world.hear("确认 1", key="m8")
    assert (other.execute, other.text) == (None, "已确认，正在执行：部署：web-01")


async def test_a_draft_waits_for_nobody(world: World) -> None:
    """C05: before the turn's transaction the action is invisible; the row and its prompt appear together."""
    outcome = await world.tools.registry.call(world.context(), "deploy", {"host": "web-01"})
    assert await world.states() == ["draft"]
    assert await world.answer("确认 1") == "没有编号为 1 的待确认操作。"
    await world.store(outcome)
    assert await world.states() == ["pending"]


async def test_a_new_attempt_withdraws_the_one_before(world: World) -> None:
    """N-07: the actions of an attempt that died are withdrawn by the next."""
    await world.propose(context=world.context(seq=5, fence=1), host="a")
    await world.propose(context=world.context(seq=5, fence=2), host="b")
    assert await world.states() == ["withdrawn", "pending"]


async def test_footer_and_list(world: World) -> None:
    """C06: an unrelated message is answered, with one line about what waits."""
    confirm = world.tools.confirm
    assert await confirm.footer("acme", WHERE) is None
    assert await confirm.list_text("acme", WHERE) == "现在没有等你确认的操作。"
    prompt = await world.propose()
    world.clock.advance(240)
    assert await confirm.footer("acme", WHERE) == "另有 1 项等你确认：部署：web-01（还剩 6 分钟）。回复「确认 1」或「取消 1」"
    assert await confirm.footer("acme", WHERE, without=[prompt.action_id]) is None
    assert await confirm.list_text("acme", WHERE) == (
        "等你确认的操作：\n#1 部署：web-01（还剩 6 分钟）\n回复「确认 编号」执行，「取消 编号」放弃，「全部取消」放弃全部。"
    )
    await world.propose(host="web-02")
    assert await confirm.footer("acme", WHERE) == (
        "另有 2 项等你确认，最新一项：部署：web-02（还剩 10 分钟）。回复「确认 2」或「取消 2」，「待确认」看全部"
    )
    assert await confirm.list_text("other", WHERE) == "现在没有等你确认的操作。"


@pytest.mark.parametrize(
    ("said", "example"),
    [
        ("确认", "「确认 2」"),
        ("取消", "「取消 2」"),
        ("改成后天", "「2 改成后天」"),
        ("改成2小时", "「2 改成2小时」"),
        ("台数改成3", "「2 改成…」"),
    ],
)
async def test_which_one_is_asked_in_the_words_of_the_answer(world: World, said: str, example: str) -> None:
    """C05: several wait; the example says what the person wanted, with a number."""
    await world.propose(host="web-01")
    await world.propose(host="web-02")
    assert (await world.hear(said)).text.startswith(f"有 2 项等你确认，请带上编号回复，例如{example}：\n#1 部署：web-01")


async def test_a_card_click(world: World) -> None:
    """C09 C16 C32 C33 EVT-06: a click runs it once; every click answers; the card is replaced with that response_code."""
    prompt = await world.propose(context=world.context(CARD))
    assert prompt.card is not None
    assert prompt.card["sub_title_text"] in prompt.text
    key = prompt.card["button_list"][0]["key"]
    row = await world.row(prompt.action_id)
    assert key == f"pa1|{prompt.action_id}|{short_digest(row.args_digest)}|c"
    world.clock.advance(1)
    confirm = world.tools.confirm
    foreign = await confirm.decide_card(world.actor("lisi"), key, "rc0")
    assert (foreign.text, foreign.execute) == ("这项操作只能由发起的人确认或取消，没有执行。", None)
    first = await confirm.decide_card(world.actor(key="e1"), key, "rc1")
    second = await confirm.decide_card(world.actor(key="e2"), key, "rc2")
    assert first.execute == prompt.action_id
    assert (second.execute, second.text) == (None, "已确认，正在执行：部署：web-01")
    await world.tools.executor.execute(first.execute)
    third = await confirm.decide_card(world.actor(key="e3"), key, "rc3")
    assert third.text == "这项已经执行过了，不会重复执行。结果：已部署 web-01"
    assert len(world.ran) == 1
    query = select(ROWS.c.payload).where(ROWS.c.kind == "card_update").order_by(ROWS.c.seq)
    updates = [r.payload["payload"] for r in await world.database.read(lambda c: c.execute(query).all())]
    assert updates == [
        {"response_code": "rc1", "button": {"replace_name": "已确认"}},
        {"response_code": "rc2", "button": {"replace_name": "已确认"}},
        {"response_code": "rc3", "button": {"replace_name": "已执行"}},
    ]


async def test_a_card_of_an_expired_action(world: World) -> None:
    """C09 C32: an old button says it is over."""
    prompt = await world.propose(context=world.context(CARD))
    assert prompt.card is not None
    key = prompt.card["button_list"][0]["key"]
    world.clock.advance(601)
    assert (await world.tools.confirm.decide_card(world.actor(), key)).text.startswith("已过期，没有执行")
    assert (await world.tools.confirm.decide_card(world.actor(), "pa1|nothing|x|c")).text == "已过期，未执行。"
    assert world.ran == []


async def test_a_menu_item_decides_only_its_own_action(world: World) -> None:
    """N-16: text that comes with a bizmsgmenuid decides only the action that id was issued for."""
    menu = Capability(can_push=True, can_card=False, can_menu=True)
    first = await world.propose(context=world.context(menu), host="a")
    second = await world.propose(context=world.context(menu), host="b")
    assert first.menu is not None
    yes, no = (item["id"] for item in first.menu["list"])
    assert await world.answer("确认 2", menu_item_id=yes) == texts.WRONG_MENU
    assert await world.answer("取消 1", menu_item_id=yes) == texts.WRONG_MENU
    assert await world.answer("确认 1", menu_item_id="101") == texts.CARD_UNKNOWN
    assert world.ran == []
    assert await world.answer("确认 1", menu_item_id=yes) == "已部署 a"
    assert await world.answer("取消 1", menu_item_id=no) == "这项已经执行过了，不会重复执行。结果：已部署 a"
    assert (await world.row(second.action_id)).status == "pending"


async def test_a_card_never_carries_what_it_cannot_show(world: World) -> None:
    """N-17: an action too long for a card, or one with a code, is asked in words."""
    assert (await world.propose(context=world.context(CARD), host="x" * 200)).card is None
    assert (await world.propose("wipe", context=world.context(CARD), host="db")).card is None
