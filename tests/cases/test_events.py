"""Area events: what is not a person speaking never reaches the model and never talks unprompted."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import texts as agent_texts
from gateway import texts
from tests.cases.scenes import (
    MEMBER,
    UNVERIFIED,
    VERIFIED,
    changed_stack,
    inbound,
    outgoing,
    passives,
    with_accounts,
)
from tests.fakes.model_server import call, say
from tests.stack import Stack

SILENT = {
    "wecom-main": ("view", "LOCATION", "location_select", "scancode_push", "pic_weixin", "unsubscribe", "batch_job_result"),
    "mp-main": ("VIEW", "LOCATION", "unsubscribe", "MASSSENDJOBFINISH", "scancode_push", "user_info_modified"),
    "mp-sub": ("VIEW", "unsubscribe", "something_new_next_year"),
}


async def test_evt_01_events_never_reach_the_model(stack: Stack) -> None:
    """EVT-01: five times enter_agent is one welcome and no model call."""
    for _ in range(5):
        await stack.post("event", account=MEMBER[0], user=MEMBER[1], event="enter_agent")
        await stack.advance(1)
    assert len(await stack.texts(*MEMBER)) == 1
    assert stack.model.requests == []


@pytest.mark.parametrize("account", list(SILENT))
async def test_evt_01_events_nobody_speaks_in_are_only_acknowledged(stack: Stack, account: str) -> None:
    """EVT-01: views, locations, results, unknown events: acknowledged at once, stored, never answered."""
    user = {"wecom-main": MEMBER, "mp-main": VERIFIED, "mp-sub": UNVERIFIED}[account][1]
    for event in SILENT[account]:
        said = await stack.post("event", account=account, user=user, event=event, key="https://example.com/")
        assert [(d["status"], d["passive"]) for d in said["deliveries"]] == [(200, None)], event
        await stack.advance(1)
    assert len(await inbound(stack)) == len(SILENT[account])
    assert (await outgoing(stack), stack.model.requests) == ([], [])


async def test_evt_02_welcome_at_most_once_a_day(stack: Stack) -> None:
    """EVT-02: at 0, 10 min and 25 h: welcomes at 0 and 25 h; each person has their own interval."""
    answers = []
    for pause_s in (0, 600, 25 * 3600 - 600):
        await stack.advance(pause_s)
        answers.append(passives(await stack.post("event", account=MEMBER[0], user=MEMBER[1], event="enter_agent")))
    greeting = stack.settings.tenants[0].accounts[0].welcome.text
    assert answers == [[greeting], [], [greeting]]
    assert passives(await stack.post("event", account="wecom-main", user="lisi", event="enter_agent")) == [greeting]


async def test_evt_02_the_interval_is_exact(stack: Stack) -> None:
    """EVT-02: half a minute before a day is over there is no second welcome, a little after it there is."""
    counts = []
    for pause_s in (0, 24 * 3600 - 30, 40):
        await stack.advance(pause_s)
        said = await stack.post("event", account=MEMBER[0], user=MEMBER[1], event="enter_agent")
        assert [delivery["status"] for delivery in said["deliveries"]] == [200]
        counts.append(len(passives(said)))
    assert counts == [1, 0, 1]


async def test_evt_02_subscribe_is_greeted_on_both_official_accounts(stack: Stack) -> None:
    """EVT-02: subscribe answers once in the response, also where nothing can be pushed; with a QR scene too."""
    for account, user in (VERIFIED, UNVERIFIED):
        greeting = next(a for a in stack.settings.tenants[0].accounts if a.id == account).welcome.text
        first = await stack.post("event", account=account, user=user, event="subscribe", key="qrscene_7", Ticket="T")
        await stack.advance(60)
        again = await stack.post("event", account=account, user=user, event="subscribe")
        assert (passives(first), passives(again)) == ([greeting], [])
    assert stack.model.requests == []


async def test_evt_03_a_changed_welcome_greets_again(tmp_path: Path, valkey: str) -> None:
    """EVT-03: the new text is shown at the next opening, within the interval; then the interval holds again."""
    greeted: list[list[str]] = []
    for greeting in ("第一版欢迎语", "第二版欢迎语"):

        def change(settings, text=greeting):  # type: ignore[no-untyped-def]
            welcome = settings.tenants[0].accounts[0].welcome.model_copy(update={"text": text})
            return with_accounts(settings, lambda account: account.model_copy(update={"welcome": welcome}))

        async with changed_stack(tmp_path, valkey, change) as stack:
            await stack.advance(60 if greeted else 0)
            for _ in range(2):
                await stack.advance(1)
                greeted.append(passives(await stack.post("event", account=MEMBER[0], user=MEMBER[1], event="enter_agent")))
    assert greeted == [["第一版欢迎语"], [], ["第二版欢迎语"], []]


async def test_evt_04_a_menu_key_is_a_command_a_fixed_text_or_an_honest_word(stack: Stack) -> None:
    """EVT-04: CLICK 帮助 answers the help; a configured key its text; an unknown key says so; VIEW nothing; no model."""
    for account, user in (MEMBER, VERIFIED, UNVERIFIED):

        async def click(key: str, account: str = account, user: str = user) -> str:
            await stack.advance(1)
            said = await stack.post("event", account=account, user=user, event="click", key=key)
            return "".join(passives(said))

        title = agent_texts.HELP_TITLE if (account, user) == MEMBER else agent_texts.HELP_COMMANDS
        assert (await click("帮助")).startswith(title)
        assert (await click("help")).startswith(title)
        assert (await click("menu_about")).startswith("驿站把企业微信")
        assert await click("no_such_key") == texts.MENU_UNKNOWN
    assert stack.model.requests == []


async def test_evt_04_the_menus_continue_hands_over_what_waits(stack: Stack) -> None:
    """EVT-04, OA5-15: 继续 in a menu is the same as typed: the parked answer, and only then that nothing waits."""
    stack.model.then(say("字" * 2000))
    first = await stack.ask(*UNVERIFIED, "长答案")
    assert "继续" in first
    await stack.advance(1)
    said = await stack.post("event", account=UNVERIFIED[0], user=UNVERIFIED[1], event="click", key="继续")
    assert "字" * 100 in "".join(passives(said))


async def test_evt_04_words_that_wait_their_turn_work_from_a_menu_too(stack: Stack) -> None:
    """EVT-04: 新会话 as a menu key starts a new session instead of saying that the menu has no content."""
    await stack.ask(*MEMBER, "你好")
    await stack.advance(1)
    said = await stack.post("event", account=MEMBER[0], user=MEMBER[1], event="click", key="新会话")
    assert passives(said) == [agent_texts.NEW_SESSION]
    assert len(stack.model.requests) == 1


async def test_evt_06_a_card_is_updated_with_its_code_once(stack: Stack) -> None:
    """EVT-05, EVT-06: the click's response_code updates the card exactly once; a second click only answers."""
    stack.model.then(call("todo_create", {"title": "买牛奶"}))
    await stack.ask(*MEMBER, "建个待办：买牛奶")

    async def shown() -> bool:
        return any(entry["kind"] == "template_card" for entry in await stack.inbox(*MEMBER))

    await stack.until(shown)
    card = next(e for e in await stack.inbox(*MEMBER) if e["kind"] == "template_card")["card"]
    yes = next(button["key"] for button in card["button_list"] if "确认" in button["text"])
    for _ in range(2):
        await stack.advance(1)
        await stack.post("click", account=MEMBER[0], user=MEMBER[1], task_id=card["task_id"], key=yes)

    async def done() -> bool:
        return len(await stack.rows("SELECT id FROM todo")) == 1 and bool(await stack.calls("wecom-main", "update_template_card"))

    await stack.until(done)
    updates = await stack.calls("wecom-main", "update_template_card")
    codes = [update["body"]["response_code"] for update in updates]
    assert len(set(codes)) == len(codes)
    assert [update["errcode"] for update in updates] == [0] * len(updates)
    assert len(await stack.rows("SELECT id FROM todo")) == 1
