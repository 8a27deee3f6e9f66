"""Area delivery: what happens to an answer or a notification when the platform says no, says nothing, or is too fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway import texts
from tests.cases.scenes import (
    LABEL,
    MEMBER,
    OTHER_MEMBER,
    SEND,
    UNVERIFIED,
    VERIFIED,
    changed_stack,
    outgoing,
    passives,
    push,
    push_state,
    sends,
    try_push,
    with_accounts,
    words,
)
from tests.fakes.model_server import call, say
from tests.stack import Stack


async def states(stack: Stack, part: str) -> list[tuple[str, str | None]]:
    """Status and park reason of the rows that say ``part``."""
    return [(row["status"], row["park_reason"]) for row in await outgoing(stack) if part in words(row)]


async def becomes(stack: Stack, part: str, wanted: list[tuple[str, str | None]]) -> None:
    """Wait until the rows that say ``part`` are in these states."""

    async def so() -> bool:
        return await states(stack, part) == wanted

    await stack.until(so)


@pytest.mark.parametrize(("who", "errcode"), [(OTHER_MEMBER, 60020), (VERIFIED, 40164)], ids=["wecom", "mp"])
async def test_del_01_a_blocked_address_parks_and_tells(stack: Stack, who: tuple[str, str], errcode: int) -> None:
    """DEL-01, DEL-03: one call, parked, the operator's group hears the IP, the person is told, and all arrives after the fix."""
    await stack.post("faults", name="ip_blocked", account=who[0])
    stack.model.then(say("算好的答案", delay_s=stack.s(6)))
    await stack.say(*who, "慢问题")
    await becomes(stack, "算好的答案", [("parked", "operator")])
    assert len(await sends(stack, who[0], "算好的答案")) <= 1
    row = next(row for row in await outgoing(stack) if "算好的答案" in words(row))
    assert (row["errcode"], "203.0.113.7" in row["errmsg"]) == (errcode, True)

    async def alerted() -> bool:
        groups = (await stack.get("state"))["groups"]
        said = [entry["text"] for group in groups for entry in await stack.inbox("group", group)]
        return any(str(errcode) in text and "203.0.113.7" in text for text in said)

    await stack.until(alerted)
    assert texts.STUCK_ON_OPERATOR in await stack.ask(*who, "帮助")
    await stack.post("faults", clear=True)
    await stack.advance(120)
    await stack.seen(*who, "算好的答案", 30)
    assert len([text for text in await stack.texts(*who) if "算好的答案" in text]) == 1
    assert texts.STUCK_ON_OPERATOR not in await stack.ask(*who, "状态")


@pytest.mark.parametrize("errcode", [60020, 81013, 45009, 40096, 99999])
async def test_del_03_every_errcode_is_on_record(stack: Stack, errcode: int) -> None:
    """DEL-03: errcode and the platform's words are in the ledger, whatever they mean, known or not."""
    await stack.post("faults", name="errcode", value=errcode, account="wecom-main", path="message/send", count=1)
    answer = await push(stack, OTHER_MEMBER[0], [OTHER_MEMBER[1]], "通知", "k")

    async def recorded() -> bool:
        return [row["errcode"] for row in await outgoing(stack, "cause = 'push'")] == [errcode]

    await stack.until(recorded)
    assert (await push_state(stack, answer["id"]))["targets"][0]["errcode"] == errcode
    assert (await outgoing(stack, "cause = 'push'"))[0]["errmsg"]


async def test_del_07_markdown_is_readable_text(stack: Stack) -> None:
    """DEL-07: # 标题 and - **a** are 标题 and • a, msgtype text, no asterisks: in the response and by push."""
    for who in (MEMBER, VERIFIED, UNVERIFIED):
        stack.model.then(say("# 标题\n- **a**\n- `b`\n\n[链接](https://example.com/x)"))
        answer = await stack.ask(*who, "列表")
        assert answer.startswith("标题\n• a\n• b")
        assert "https://example.com/x" in answer
        assert "*" not in answer
        assert "#" not in answer
    stack.model.then(say("# 晚标题\n- **a**", delay_s=stack.s(6)))
    await stack.say(*MEMBER, "慢慢来")
    await stack.seen(*MEMBER, "晚标题\n• a")
    assert {sent["body"]["msgtype"] for sent in await sends(stack, "wecom-main")} == {"text"}


async def test_del_12_an_unknown_member_fails_alone(stack: Stack) -> None:
    """DEL-12: a, ghost and b: the two are reached, ghost's fault is told with its reason; no retry."""
    answer = await push(stack, "wecom-main", ["zhangsan", "ghost", "lisi"], "停水通知", "k")

    async def done() -> bool:
        return bool((await push_state(stack, answer["id"]))["counts"] == {"sent": 2, "dead": 1})

    await stack.until(done)
    ghost = next(t for t in (await push_state(stack, answer["id"]))["targets"] if t["user"] == "ghost")
    assert ghost["reason"].startswith("81013")
    assert len(await sends(stack, "wecom-main", "ghost")) == 1
    assert await stack.texts("wecom-main", "lisi") == ["停水通知"]


async def test_del_14_an_account_that_may_not_push_becomes_pull(stack: Stack) -> None:
    """DEL-14: the first 48001 parks the answer and tells the operator once; 继续 gives it; then the passive mode holds."""
    await stack.post("faults", name="errcode", value=48001, account="mp-main", path="message/custom/send")
    stack.model.then(say("晚到的答案", delay_s=stack.s(6)))
    await stack.say(*VERIFIED, "第一个问题")
    await becomes(stack, "晚到的答案", [("parked", "pull")])
    answer = await stack.ask(*VERIFIED, "继续")
    assert answer == f"关于：第一个问题\n晚到的答案{LABEL}"
    alerts = [words(row) for row in await outgoing(stack, "cause = 'notice' AND user_id = 'zhangsan'")]
    assert len([text for text in alerts if texts.PULL_ONLY in text]) == 1
    assert len(await sends(stack, "mp-main", "晚到的答案")) == 1

    async def known() -> bool:
        return "第一" in await held(stack)

    await stack.until(known)


async def held(stack: Stack) -> str:
    """Ask slowly; the answer when the first delivery was held open for it, as an account without push does."""
    stack.model.then(say("第一手的答案", delay_s=stack.s(6.5)))
    said = await stack.say(*VERIFIED, "第二个问题")
    return "".join(passives(said)) if len(said["deliveries"]) == 2 else ""


async def test_del_17_outside_the_window_waits_for_the_next_word(stack: Stack) -> None:
    """DEL-17: a push at +49 h is parked, never repeated; the person's next message lets it go."""
    await stack.ask(*VERIFIED, "帮助")
    await stack.advance(49 * 3600)
    await push(stack, VERIFIED[0], [VERIFIED[1]], "两天后的通知", "k")
    await becomes(stack, "两天后的通知", [("parked", "window")])
    assert len(await sends(stack, "mp-main", "两天后的通知")) <= 1
    await stack.ask(*VERIFIED, "帮助")
    await stack.seen(*VERIFIED, "两天后的通知")
    assert (await stack.texts(*VERIFIED)).count("两天后的通知") == 1


async def test_del_17_just_inside_the_window_is_sent(stack: Stack) -> None:
    """DEL-17: a minute before the 48 hours end the push still goes."""
    await stack.ask(*VERIFIED, "帮助")
    await stack.advance(48 * 3600 - 60)
    await push(stack, VERIFIED[0], [VERIFIED[1]], "刚好赶上", "k")
    await stack.seen(*VERIFIED, "刚好赶上")


@pytest.mark.parametrize("errcode", [45047, 45015])
async def test_del_21_a_refusal_in_a_200_is_not_sent(stack: Stack, errcode: int) -> None:
    """DEL-21: HTTP 200 with 45047 or 45015: parked, never sent; the next message lets it go."""
    await stack.ask(*VERIFIED, "帮助")
    await stack.post("faults", name="errcode", value=errcode, account="mp-main", path="message/custom/send", count=1)
    await push(stack, VERIFIED[0], [VERIFIED[1]], "被拒的通知", "k")
    await becomes(stack, "被拒的通知", [("parked", "window")])
    assert "被拒的通知" not in await stack.texts(*VERIFIED)
    await stack.ask(*VERIFIED, "帮助")
    await stack.seen(*VERIFIED, "被拒的通知")


async def test_del_22_30_the_notice_is_no_answer_and_no_acknowledgement(stack: Stack) -> None:
    """DEL-22, DEL-30: one callback, one notice inside the five seconds, then the answer: both, in this order, once each."""
    stack.model.then(say("真正的答案", delay_s=stack.s(12)))
    said = await stack.say(*MEMBER, "很慢")
    assert [delivery["outcome"] for delivery in said["deliveries"]] == ["ok"]
    await stack.seen(*MEMBER, "真正的答案")
    assert await stack.texts(*MEMBER) == [texts.RECEIPT, "真正的答案"]
    assert len(stack.model.requests) == 1


async def test_del_24_forty_pushes_to_one_member_are_paced(stack: Stack) -> None:
    """DEL-24: thirty in the first minute, ten in the next; WeCom drops nothing, nothing is lost, the order holds."""
    for number in range(40):
        await push(stack, "wecom-main", ["lisi"], f"第{number:02d}条", f"k{number}")

    async def thirty() -> bool:
        return len(await stack.texts(*OTHER_MEMBER)) == 30

    await stack.until(thirty)
    assert [row["status"] for row in await outgoing(stack, "status != 'sent'")] == ["pending"] * 10
    await stack.advance(61)

    async def all_of_them() -> bool:
        return len(await stack.texts(*OTHER_MEMBER)) == 40

    await stack.until(all_of_them)
    assert await stack.texts(*OTHER_MEMBER) == [f"第{number:02d}条" for number in range(40)]
    assert all("dropped" not in sent for sent in await sends(stack, "wecom-main"))


@pytest.mark.parametrize("user", ["oDemoMainFollower00000000001", "wmAJ2GCAAAme1XQRC-NI-q0_ZM9ukoAw"])
async def test_del_25_an_id_of_another_kind_never_leaves(stack: Stack, user: str) -> None:
    """DEL-25: an openid or external_userid pushed through the WeCom app: refused here with a reason, no call."""
    status, answer = await try_push(stack, "wecom-main", [user], "走错门", "k")
    if status == 202:

        async def refused() -> bool:
            return bool((await push_state(stack, answer["id"]))["counts"] == {"dead": 1})

        await stack.until(refused)
        assert (await push_state(stack, answer["id"]))["targets"][0]["reason"]
    else:
        assert status == 400
    assert await sends(stack, "wecom-main") == []


async def test_del_31_32_text_around_a_tool_call_arrives_once(stack: Stack) -> None:
    """DEL-31, DEL-32: text, tool call, text: both arrive, in order, once, and 好的 is not said twice."""
    stack.model.then(call("todo_list", {}, text="好的"), say("好的，你没有待办。"))
    answer = await stack.ask(*MEMBER, "看看待办")
    assert answer == "好的，你没有待办。"
    stack.model.then(call("todo_list", {}, text="我先查一下。"), say("查完了，没有待办。"))
    answer = await stack.ask(*MEMBER, "再看看")
    assert answer.index("我先查一下") < answer.index("查完了")
    assert len(await stack.texts(*MEMBER)) == 2


async def test_del_04_an_egress_proxy_sees_the_calls(tmp_path: Path, valkey: str) -> None:
    """DEL-04: with proxy_url set the account's calls go through the proxy, others do not."""
    from aiohttp import web

    seen: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append(str(request.url))
        return web.json_response({"errcode": 0, "errmsg": "ok", "access_token": "t", "expires_in": 7200, "msgid": "m"})

    runner = web.AppRunner(web.Application())
    runner.app.router.add_route("*", "/{rest:.*}", proxy)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"

    def proxied(settings: Any) -> Any:
        return with_accounts(settings, lambda a: a.model_copy(update={"proxy_url": address}) if a.platform == "wecom" else a)

    try:
        async with changed_stack(tmp_path, valkey, proxied) as stack:
            await push(stack, "wecom-main", ["lisi"], "经过代理", "k")
            await becomes(stack, "经过代理", [("sent", None)])
            assert any("message/send" in url for url in seen)
            assert await stack.calls("wecom-main", SEND["wecom-main"]) == []
    finally:
        await runner.cleanup()


async def test_del_17_the_sixth_message_waits(stack: Stack) -> None:
    """DEL-17, DEL-21: five customer-service messages per word of the person; what is over waits for the next word, in order."""
    await stack.ask(*VERIFIED, "帮助")
    for number in range(7):
        await push(stack, VERIFIED[0], [VERIFIED[1]], f"通知{number}", f"k{number}")

    async def five() -> bool:
        return sorted(row["status"] for row in await outgoing(stack, "cause = 'push'")) == ["parked"] * 2 + ["sent"] * 5

    await stack.until(five)
    await stack.ask(*VERIFIED, "状态")
    await stack.seen(*VERIFIED, "通知6")
    assert [text for text in await stack.texts(*VERIFIED) if "通知" in text] == [f"通知{number}" for number in range(7)]


async def test_del_17_five_parked_come_three_at_once_then_on_continue(stack: Stack) -> None:
    """DEL-17, N-06: the next word lets three go, 继续 the rest, and never says that nothing waits while it comes."""
    await stack.ask(*VERIFIED, "帮助")
    await stack.advance(49 * 3600)
    for number in range(5):
        await push(stack, VERIFIED[0], [VERIFIED[1]], f"通知{number}", f"k{number}")

    async def parked() -> bool:
        return [row["status"] for row in await outgoing(stack, "cause = 'push'")] == ["parked"] * 5

    await stack.until(parked)
    await stack.ask(*VERIFIED, "状态")
    await stack.seen(*VERIFIED, "通知2")
    assert [row["status"] for row in await outgoing(stack, "cause = 'push'")] == ["sent"] * 3 + ["parked"] * 2
    assert await stack.ask(*VERIFIED, "继续") == texts.COMING
    await stack.seen(*VERIFIED, "通知4")
    await stack.advance(10)
    assert await stack.ask(*VERIFIED, "继续") == texts.NOTHING_PARKED
    assert [text for text in await stack.texts(*VERIFIED) if "通知" in text] == [f"通知{number}" for number in range(5)]


@pytest.mark.parametrize("fault", ["connection_refused", "http_500", "html_200", "empty_200"])
async def test_del_21_no_usable_answer_is_not_success(stack: Stack, fault: str) -> None:
    """DEL-21, DUP-08: whatever is no errcode 0 is not sent: WeCom is asked again with the same bytes, an Official Account is
    not, and the ledger says unknown."""
    await stack.ask(*VERIFIED, "帮助")
    for account, user in (OTHER_MEMBER, VERIFIED):
        await stack.post("faults", name=fault, account=account, path=SEND[account], count=1)
        await push(stack, account, [user], "再试的通知", f"k-{account}")
    await stack.seen(*OTHER_MEMBER, "再试的通知")
    assert len({sent["raw"] for sent in await sends(stack, "wecom-main", "再试的通知")}) == 1
    await becomes(stack, "再试的通知", [("sent", None), ("unknown", None)])
    assert len(await sends(stack, "mp-main", "再试的通知")) == 1


async def test_del_quota_pauses_the_account_and_goes_on(stack: Stack) -> None:
    """DEL-03's sibling: 45009: nothing is lost, answers in the response still come, and it goes on when the minute is over."""
    await stack.post("faults", name="quota", account="wecom-main", path="message/send", count=1)
    await push(stack, "wecom-main", ["lisi"], "配额用完时的通知", "k")
    await becomes(stack, "配额用完时的通知", [("pending", None)])

    async def refused() -> bool:
        return [row["errcode"] for row in await outgoing(stack, "cause = 'push'")] == [45009]

    await stack.until(refused)
    assert await stack.ask(*OTHER_MEMBER, "状态")
    await stack.advance(70)
    await stack.seen(*OTHER_MEMBER, "配额用完时的通知")
    assert len(await sends(stack, "wecom-main", "配额用完时的通知")) == 2


async def test_del_busy_is_retried_and_arrives_once(stack: Stack) -> None:
    """DEL-21's sibling: -1 twice, then 0: the same bytes again after a pause, shown once."""
    await stack.post("faults", name="busy", account="wecom-main", path="message/send", count=2)
    await push(stack, "wecom-main", ["lisi"], "系统繁忙后到达", "k")
    await stack.seen(*OTHER_MEMBER, "系统繁忙后到达", 30)
    calls = await sends(stack, "wecom-main", "系统繁忙后到达")
    assert [sent["errcode"] for sent in calls] == [-1, -1, 0]
    assert len({sent["raw"] for sent in calls}) == 1
