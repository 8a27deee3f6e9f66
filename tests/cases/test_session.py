"""Area session: whose conversation it is, in which order, and what a stop or a crash in between may not change."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent import texts as agent_texts
from agent.protocol import InboundMessage
from config.clock import Clock
from config.database import open_database
from config.schema import Settings, WecomAccount
from gateway import texts
from gateway.outbox import SqlOutbox
from gateway.wecom.inbound import normalize
from memory.keys import conversation_id
from scripts.simulator.accounts import parse_account
from tests.cases.scenes import (
    LABEL,
    MEMBER,
    OTHER_MEMBER,
    UNVERIFIED,
    VERIFIED,
    changed_stack,
    inbound,
    outgoing,
    passives,
    prompts,
    push,
    with_accounts,
    words,
)
from tests.fakes.model_server import broken, call, say
from tests.stack import Stack
from tools import texts as tool_texts

KEY = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"


def second_app(account: Any) -> Any:
    """The accounts with another app of the same company."""
    if account.platform != "wecom":
        return account
    changes = {"id": "wecom-two", "agent_id": 1000003, "secret": SecretStr("anothersecret"), "callback_token": "anothertoken"}
    return [account, account.model_copy(update={**changes, "encoding_aes_key": SecretStr(KEY)})]


def known_to_platform(stack: Stack) -> None:
    """Make the simulator host the second app too."""
    account = stack.settings.account("wecom-two")
    assert isinstance(account, WecomAccount)
    raw = {
        **{name: getattr(account, name) for name in ("id", "platform", "corp_id", "agent_id", "callback_token")},
        "secret": account.secret.get_secret_value(),
        "encoding_aes_key": KEY,
    }
    hosted = parse_account(raw, f"http://127.0.0.1:{stack.settings.http.port}")
    stack.world.accounts["wecom-two"] = hosted


async def test_ses_03_the_same_id_under_two_accounts_is_two_people(stack: Stack) -> None:
    """SES-03, MEM-01: one openid under both Official Accounts: two conversations, no word of the one in the other."""
    same = "oSameOpenIdUnderTwoAccounts1"
    await stack.ask("mp-main", same, "我的暗号是青柠")
    await stack.ask("mp-sub", same, "我的暗号是什么")
    assert "青柠" not in str(stack.model.requests[-1]["messages"])
    rows = await inbound(stack)
    assert rows[0]["conversation_id"] != rows[1]["conversation_id"]
    assert len(await stack.rows("SELECT DISTINCT session_id FROM message")) == 2


async def test_ses_04_the_answer_goes_through_the_app_that_was_asked(tmp_path: Path, valkey: str) -> None:
    """SES-04, SES-03: two apps of one company, the same member: the second app's rest is sent with its own agentid."""
    async with changed_stack(tmp_path, valkey, lambda settings: with_accounts(settings, second_app)) as stack:
        known_to_platform(stack)
        await stack.ask("wecom-main", "zhangsan", "我的暗号是青柠")
        stack.model.then(say("字" * 1000))
        await stack.ask("wecom-two", "zhangsan", "我的暗号是什么")
        assert "青柠" not in str(stack.model.requests[-1]["messages"])

        async def pushed() -> bool:
            return len(await stack.calls("wecom-two", "message/send")) == 1

        await stack.until(pushed)
        assert (await stack.calls("wecom-two", "message/send"))[0]["body"]["agentid"] == 1000003
        assert await stack.calls("wecom-main", "message/send") == []


async def test_ses_10_a_scheduled_push_fires_after_a_restart_by_itself(tmp_path: Path, valkey: str) -> None:
    """SES-10: stopped over the due time, started again: exactly one push, without any inbound message."""

    def same(settings: Settings) -> Settings:
        return settings

    async with changed_stack(tmp_path, valkey, same) as stack:
        due = int((await stack.get("clock"))["now_ms"]) + 3_600_000
        await push(stack, *_to(MEMBER), "到点的通知", "k", not_before=due)
    async with changed_stack(tmp_path, valkey, same) as stack:
        assert await stack.texts(*MEMBER) == []
        await stack.advance(2 * 3600)
        await stack.seen(*MEMBER, "到点的通知")
        assert await stack.texts(*MEMBER) == ["到点的通知"]
        assert await inbound(stack) == []


async def test_ses_11_what_is_long_overdue_is_skipped_not_fired(stack: Stack) -> None:
    """SES-11: days late: nothing is sent for what repeats, it moves on; 4 minutes late is sent. What was to come a single time
    comes late, marked as such, once."""
    for number, repeat in ((1, "daily"), (2, "weekly")):
        await _remind(stack, f"提醒{number}", repeat)
    await stack.advance(3 * 86_400)

    async def moved() -> bool:
        now = int((await stack.get("clock"))["now_ms"])
        rows = await stack.rows("SELECT * FROM reminder ORDER BY number")
        return all(row["next_due_ms"] > now and row["status"] == "active" for row in rows)

    await stack.until(moved)
    assert await outgoing(stack, "cause = 'reminder'") == []
    due = (await stack.rows("SELECT next_due_ms FROM reminder WHERE number = 1"))[0]["next_due_ms"]
    now = int((await stack.get("clock"))["now_ms"])
    await stack.advance((due - now) / 1000 + 240)

    async def fired() -> bool:
        return len(await outgoing(stack, "cause = 'reminder' AND status = 'sent'")) == 1

    await stack.until(fired)
    assert words((await outgoing(stack, "cause = 'reminder'"))[0]) == tool_texts.REMINDER_LATE.format(minutes=4, text="提醒1")
    await _remind(stack, "单次", "none")
    await stack.advance(3 * 86_400)
    told = await stack.seen("wecom-main", "zhangsan", "来晚了）：单次")
    assert told["text"].startswith("提醒（原定 ")
    assert len(await outgoing(stack, "cause = 'reminder'")) == 2


async def test_ses_12_two_processes_fire_a_reminder_once(stack: Stack) -> None:
    """SES-12: three more processes look at the same moment as the running one: the occurrence is one row and one message."""
    from tools.builtin.reminder import fire_due

    await _remind(stack, "喝水", "daily")
    await stack.advance(86_400 + 60)
    databases = [open_database(stack.settings.sqlalchemy_url) for _ in range(3)]
    clock = Clock(stack.settings.test_clock)
    try:
        outbox = SqlOutbox(await _channels(stack, clock), clock, stack.settings.limits)
        await asyncio.gather(*(fire_due(database, outbox, clock) for database in databases))
    finally:
        for database in databases:
            await database.close()

    async def fired() -> bool:
        return bool(await outgoing(stack, "cause = 'reminder'"))

    await stack.until(fired)
    assert len(await outgoing(stack, "cause = 'reminder'")) == 1


async def test_ses_13_the_second_question_waits_and_is_told_so(stack: Stack) -> None:
    """SES-13: a1 (in two parts) is whole before a2; one 排队中，前面 1 条; nothing interleaves."""
    stack.model.then(say("甲" * 1000, delay_s=stack.s(6)), say("乙的答案"))
    first = asyncio.create_task(stack.say(*MEMBER, "第一问"))

    async def running() -> bool:
        return len(stack.model.requests) == 1

    await stack.until(running)
    second = passives(await stack.say(*MEMBER, "第二问"))
    await first
    await stack.seen(*MEMBER, "乙的答案")
    assert second in ([texts.QUEUED.format(ahead=1)], ["乙的答案"], [texts.RECEIPT])
    order = [text[:1] for text in "\n".join(await stack.texts(*MEMBER)).replace("(1/2)\n", "").replace("(2/2)\n", "").split("\n")]
    told = [mark for mark in order if mark in "甲乙"]
    assert told == ["甲", "甲", "乙"]
    assert len(prompts(stack.model)) == 2


async def test_ses_13_two_slow_questions_without_push_wait_in_order(stack: Stack) -> None:
    """SES-13, OA5-16: without push both are placeholders; then 继续 gives a1, then a2, each with its question."""
    stack.model.then(say("甲答", delay_s=stack.s(22)), say("乙答", delay_s=stack.s(2)))
    first = asyncio.create_task(stack.say(*UNVERIFIED, "甲问"))

    async def running() -> bool:
        return len(stack.model.requests) == 1

    await stack.until(running)
    second = await stack.say(*UNVERIFIED, "乙问")
    told = [passives(await first), passives(second)]
    assert told[0] == [texts.PULL_PLACEHOLDER.format(question="甲问")]
    assert told[1] in ([texts.PULL_PLACEHOLDER.format(question="乙问")], [f"乙答{LABEL}"])

    async def idle() -> bool:
        return {row["status"] for row in await inbound(stack)} == {"done"}

    await stack.until(idle)
    assert (await stack.ask(*UNVERIFIED, "继续")).startswith("关于：甲问\n甲答")
    if told[1][0].startswith("正在处理"):
        assert (await stack.ask(*UNVERIFIED, "继续")).startswith("关于：乙问\n乙答")
    assert await stack.ask(*UNVERIFIED, "继续") == texts.NOTHING_PARKED


def test_ses_14_a_group_and_a_private_chat_are_two_conversations() -> None:
    """SES-14: the same member alone, in a group and in another group: three conversations; two members of a group share one."""
    account = WecomAccount.model_validate(
        {
            **{"id": "w", "platform": "wecom", "corp_id": "ww0123456789abcdef", "agent_id": 1000002, "secret": "s"},
            **{"callback_token": "t", "encoding_aes_key": KEY},
        }
    )

    def heard(user: str, chat: str | None) -> str:
        body: dict[str, Any] = {
            "msgid": "m1",
            "aibotid": "b",
            "from": {"userid": user},
            "msgtype": "text",
            "text": {"content": "报价"},
        }
        body |= {"chattype": "single"} if chat is None else {"chattype": "group", "chatid": chat}
        message: InboundMessage = normalize(json.dumps(body).encode(), account, "acme", is_json=True, received_at_ms=1)
        return conversation_id("acme", "w", message.chat_type, message.peer_id)

    alone, group, other = heard("zhangsan", None), heard("zhangsan", "g1"), heard("zhangsan", "g2")
    assert len({alone, group, other}) == 3
    assert heard("lisi", "g1") == group
    assert heard("lisi", None) != alone
    assert heard("zhangsan", "zhangsan") != alone


async def test_ses_17_after_a_stop_between_parts_only_the_rest_is_sent(tmp_path: Path, valkey: str) -> None:
    """SES-17: stopped after part 1: the next process sends part 2 and 3, and never part 1 again."""

    def same(settings: Settings) -> Settings:
        return settings

    async with changed_stack(tmp_path, valkey, same) as stack:
        stack.model.then(say("字" * 1700))
        await stack.post("faults", name="busy", account="wecom-main", path="message/send")
        first = await stack.ask(*MEMBER, "写长一点")
    assert first.startswith("(1/3)")
    async with changed_stack(tmp_path, valkey, same) as stack:
        await stack.advance(900)
        await stack.seen(*MEMBER, "(3/3)")
        assert [text[:5] for text in await stack.texts(*MEMBER)] == ["(2/3)", "(3/3)"]


async def test_ses_20_the_receipt_says_what_happened(tmp_path: Path, valkey: str) -> None:
    """SES-20: room for one waiting message: the third is told that it was not taken on; the two are answered."""

    def narrow(settings: Settings) -> Settings:
        return settings.model_copy(update={"limits": settings.limits.model_copy(update={"waiting_per_person": 1})})

    async with changed_stack(tmp_path, valkey, narrow) as stack:
        stack.model.then(say("一", delay_s=stack.s(6)), say("二"))
        await stack.say(*MEMBER, "第一条", wait=False)

        async def running() -> bool:
            return len(stack.model.requests) == 1

        await stack.until(running)
        await stack.say(*MEMBER, "第二条", wait=False)

        async def waiting() -> bool:
            return len(await inbound(stack)) == 2

        await stack.until(waiting)
        assert await stack.ask(*MEMBER, "第三条") == texts.TOO_MUCH
        await stack.seen(*MEMBER, "二")
        assert prompts(stack.model) == ["第一条", "第二条"]
        assert await stack.ask(*OTHER_MEMBER, "别人不受影响") == "好的"


async def test_ses_20_twenty_a_minute_and_not_one_more(stack: Stack) -> None:
    """SES-20, N-09: twenty turns a minute are answered, the next is told so, commands go on; a minute later it is open again."""
    stack.model.rule = lambda request: say("收到")
    for number in range(20):
        assert await stack.ask(*MEMBER, f"第{number}条") == "收到"
    assert await stack.ask(*MEMBER, "第21条") == texts.TOO_MUCH
    assert (await stack.ask(*MEMBER, "帮助")).startswith(agent_texts.HELP_TITLE)
    await stack.advance(61)
    assert await stack.ask(*MEMBER, "第22条") == "收到"


async def test_ses_22_a_forgotten_conversation_is_answered_anyway(stack: Stack) -> None:
    """SES-22: the model's backend says 404 Conversation Not Exists once: the person gets the answer, not the error."""
    stack.model.then(broken("conversation_404"), say("还是答上来了"))
    assert await stack.ask(*MEMBER, "问") == "还是答上来了"
    stack.model.then(broken("conversation_404"), broken("conversation_404"))
    assert await stack.ask(*MEMBER, "再问") == agent_texts.failed("model_refused")


async def test_mem_01_nobodys_words_are_in_anothers_prompt(stack: Stack) -> None:
    """MEM-01: A's number is in no request made for B, on the same app and on another account; and A's own next one has it."""
    await stack.ask(*MEMBER, "我的工号是 E-1024")
    for who in (OTHER_MEMBER, VERIFIED, UNVERIFIED):
        answer = await stack.ask(*who, "上一个人的工号?")
        assert "E-1024" not in answer.removesuffix(LABEL)
        assert "E-1024" not in json.dumps(stack.model.requests[-1], ensure_ascii=False)
    await stack.ask(*MEMBER, "我的工号是多少")
    assert "E-1024" in json.dumps(stack.model.requests[-1], ensure_ascii=False)


async def test_mem_03_an_account_without_memory_stores_nothing(tmp_path: Path, valkey: str) -> None:
    """MEM-03, what holds already: memory off: no transcript row, and the next prompt knows nothing; other accounts remember."""

    def forgetful(account: Any) -> Any:
        return account.model_copy(update={"memory": "off"}) if account.id == "mp-main" else account

    async with changed_stack(tmp_path, valkey, lambda settings: with_accounts(settings, forgetful)) as stack:
        await stack.ask(*VERIFIED, "我的工号是 E-1024")
        await stack.ask(*VERIFIED, "我的工号是多少")
        assert "E-1024" not in json.dumps(stack.model.requests[-1], ensure_ascii=False)
        assert await stack.rows("SELECT id FROM message") == []
        await stack.ask(*UNVERIFIED, "记一下")
        assert len(await stack.rows("SELECT id FROM message")) == 2


def _to(who: tuple[str, str]) -> tuple[str, list[str]]:
    return who[0], [who[1]]


async def _remind(stack: Stack, text: str, repeat: str) -> None:
    """A reminder for tomorrow, proposed by the model and confirmed by the person."""
    now = int((await stack.get("clock"))["now_ms"])
    due = Clock().local(now + 86_400_000).isoformat(timespec="seconds")
    stack.model.then(call("reminder_create", {"text": text, "at": due, "repeat": repeat}))
    before = len(await stack.rows("SELECT id FROM reminder"))
    await stack.ask(*MEMBER, f"明天提醒我{text}")

    async def asked() -> bool:
        return not await outgoing(stack, "status IN ('pending', 'sending', 'passive_reserved')")

    await stack.until(asked)
    await stack.advance(2)
    await stack.ask(*MEMBER, "确认")

    async def made() -> bool:
        return len(await stack.rows("SELECT id FROM reminder")) == before + 1

    await stack.until(made)


async def _channels(stack: Stack, clock: Clock) -> Any:
    """Channels like another process has them; nothing is sent through them here."""
    import aiohttp

    from gateway.channels import open_channels

    async with aiohttp.ClientSession() as session:
        return open_channels(stack.settings, session, None, clock).by_account
