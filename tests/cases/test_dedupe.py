"""Area dedupe: what is the same is handled once, what only looks the same is handled twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway import texts
from tests.cases.scenes import (
    LABEL,
    MEMBER,
    UNVERIFIED,
    VERIFIED,
    inbound,
    outgoing,
    passives,
    prompts,
    push,
    second_gateway,
    sends,
)
from tests.fakes.model_server import say
from tests.stack import Stack


async def test_dup_03_two_events_of_one_second_are_two(stack: Stack) -> None:
    """DUP-03: two clicks in one second with different keys are both answered; the same click again is not."""
    moment = int((await stack.get("clock"))["now_ms"]) // 1000
    for account, user in (MEMBER, VERIFIED, UNVERIFIED):
        for key in ("帮助", "状态", "帮助"):
            await stack.post("event", account=account, user=user, event="click", key=key, create_time=moment)
        assert len([row for row in await inbound(stack) if row["account_id"] == account]) == 2


async def test_dup_03_events_that_differ_only_inside_are_two(stack: Stack) -> None:
    """DUP-03: the same second, event and key, another scanned code: the body is part of the key."""
    moment = int((await stack.get("clock"))["now_ms"]) // 1000
    for code in ("一", "二"):
        fields = {"ScanCodeInfo": {"ScanType": "qrcode", "ScanResult": code}}
        body = {"event": "scancode_waitmsg", "key": "scan", "create_time": moment, "fields": fields}
        await stack.post("event", account=MEMBER[0], user=MEMBER[1], **body)
    assert len(await inbound(stack)) == 2


async def test_dup_04_system_events_of_one_second_are_each_stored(stack: Stack) -> None:
    """DUP-04: two change_contact events in one second with different UserID; the first again is known."""
    moment = int((await stack.get("clock"))["now_ms"]) // 1000
    for changed in ("wangwu", "zhaoliu", "wangwu"):
        fields = {"ChangeType": "update_user", "UserID": changed}
        body = {"event": "change_contact", "create_time": moment, "fields": fields}
        said = await stack.post("event", account="wecom-main", user="sys", **body)
        assert [d["status"] for d in said["deliveries"]] == [200]
    rows = await inbound(stack)
    assert [(row["kind"], row["deliveries"]) for row in rows] == [("event:contact_change", 2), ("event:contact_change", 1)]


async def test_dup_06_an_event_without_an_id_is_known_again(stack: Stack) -> None:
    """DUP-06: the same XML without MsgId, at once and later, on both platforms: handled once."""
    for account, user in (MEMBER, VERIFIED):
        await stack.post("event", account=account, user=user, event="click", key="帮助", copies=2)
        await stack.advance(5)
        await stack.say(account, user, redeliver=True)
        assert len([row for row in await inbound(stack) if row["account_id"] == account]) == 1
        assert len([row for row in await outgoing(stack) if row["account_id"] == account]) == 1


async def test_dup_06_a_message_without_an_id_is_known_again(stack: Stack) -> None:
    """DUP-06: even a text whose MsgId is missing is one turn, however often it comes."""
    moment = int((await stack.get("clock"))["now_ms"]) // 1000
    xml = (
        f"<xml><ToUserName>ww0123456789abcdef</ToUserName><FromUserName>{MEMBER[1]}</FromUserName>"
        f"<CreateTime>{moment}</CreateTime><MsgType>text</MsgType><Content>没有编号</Content><AgentID>1000002</AgentID></xml>"
    )
    stack.model.then(say("一次"))
    await asyncio.gather(*(stack.say(*MEMBER, raw_xml=xml) for _ in range(3)))
    assert prompts(stack.model) == ["没有编号"]
    assert len(await inbound(stack)) == 1


@pytest.mark.parametrize("who", [MEMBER, VERIFIED, UNVERIFIED], ids=lambda who: who[0])
async def test_dup_06_a_lost_reply_is_given_again(stack: Stack, who: tuple[str, str]) -> None:
    """DUP-06, N-03: the response got lost on the way: the redelivery brings the same answer, nothing runs or goes out twice."""
    for text in ("帮助", "问题", "状态"):
        await stack.post("faults", name="callback_lose_reply", account=who[0], count=1)
        said = await stack.say(*who, text)
        assert [delivery["outcome"] for delivery in said["deliveries"]] == ["lost", "ok"]
        assert len(passives(said)) == 1
    await stack.post("faults", name="callback_lose_reply", account=who[0], count=1)
    clicked = await stack.post("event", account=who[0], user=who[1], event="click", key="帮助")
    assert len(passives(clicked)) == 1
    assert len(stack.model.requests) == 1
    assert (len(await stack.texts(*who)), await sends(stack, who[0])) == (4, [])


async def test_dup_06_a_lost_page_is_the_same_page_again(stack: Stack) -> None:
    """DUP-06: 继续 whose response got lost: the redelivery has that page, the next 继续 the next one; nothing is missing."""
    stack.model.then(say("字" * 2000))
    pages = [await stack.ask(*UNVERIFIED, "写长一点")]
    while "回复「继续」" in pages[-1] and len(pages) < 9:
        await stack.post("faults", name="callback_lose_reply", account="mp-sub", count=1)
        pages += passives(await stack.say(*UNVERIFIED, "继续"))
    assert "".join(pages).count("字") == 2000


@pytest.mark.parametrize("who", [VERIFIED, UNVERIFIED], ids=lambda who: who[0])
async def test_dup_06_json_callbacks_are_known_again_too(stack: Stack, who: tuple[str, str]) -> None:
    """DUP-06, OA5-12: the same message as JSON: answered in kind, one turn for three deliveries."""
    fields: dict[str, Any] = {"message_id": "24000000000000001", "json": True}
    stack.model.then(say('好]]>的"x"'))
    said = await asyncio.gather(*(stack.say(*who, '问 "引号"', **fields) for _ in range(3)))
    assert {text for one in said for text in passives(one)} == {'好]]>的"x"' + LABEL}
    assert prompts(stack.model) == ['问 "引号"']


@pytest.mark.parametrize("who", [MEMBER, VERIFIED, UNVERIFIED], ids=lambda who: who[0])
async def test_dup_06_two_gateways_answer_one_message_once(stack: Stack, who: tuple[str, str]) -> None:
    """DUP-06, OA5-20, N-02: the same delivery at two processes at once, quick, slower and late: one turn, one answer seen;
    a redelivery at the other process gets the remembered answer."""
    async with second_gateway(stack) as port:
        urls = [f"http://127.0.0.1:{one}/callback/{who[0]}" for one in (stack.settings.http.port, port)]
        for count, seconds in enumerate((0, 2, 6.5), 1):
            stack.model.then(say(f"答案{count}", delay_s=stack.s(seconds)))
            await stack.say(*who, f"问题{count}", repeat_to=urls)
            await stack.seen(*who, f"答案{count}")
            assert len(stack.model.requests) == count
            assert len([text for text in await stack.texts(*who) if f"答案{count}" in text]) == 1
        first = await stack.say(*who, "再问")
        again = await stack.say(*who, redeliver=first["message_id"], repeat_to=urls[1:])
        assert passives(first) == passives(again) != []
        stack.model.then(say("字" * 1700))
        await stack.ask(*who, "写长一点")
        if who == UNVERIFIED:
            assert len(set(passives(await stack.say(*who, "继续", repeat_to=urls)))) == 1


async def test_dup_07_what_goes_out_never_reuses_an_id(stack: Stack) -> None:
    """DUP-07 for what this product sends: each template message carries its own client_msg_id, never an inbound one."""
    for number in (1, 2):
        message = {"kind": "template", "template_id": "T1", "data": {"a": {"value": f"第{number}次"}}}
        await push(stack, VERIFIED[0], [VERIFIED[1]], "", f"template-{number}", message=message)

    async def both() -> bool:
        return len(await stack.calls("mp-main", "message/template/send")) == 2

    await stack.until(both)
    calls = await stack.calls("mp-main", "message/template/send")
    assert len({call["body"]["client_msg_id"] for call in calls}) == 2
    assert [call["errcode"] for call in calls] == [0, 0]


@pytest.mark.parametrize("fault", ["accept_then_close", "accept_then_502", "truncated_json"])
async def test_dup_08_wecom_recognizes_the_repeated_bytes(stack: Stack, fault: str) -> None:
    """DUP-08: the platform took the message and the answer got lost: sent again byte for byte, shown once, never twice."""
    await stack.post("faults", name=fault, account="wecom-main", path="message/send", count=1)
    await push(stack, MEMBER[0], [MEMBER[1]], "只看到一次", "k1")

    async def settled() -> bool:
        return [row["status"] for row in await outgoing(stack)] == ["sent"]

    await stack.until(settled)
    assert await stack.texts(*MEMBER) == ["只看到一次"]
    calls = await sends(stack, "wecom-main", "只看到一次")
    assert len(calls) == 2
    assert calls[0]["raw"] == calls[1]["raw"]
    assert calls[0]["body"]["enable_duplicate_check"] == 1


@pytest.mark.parametrize("fault", ["accept_then_close", "accept_then_502"])
async def test_dup_08_where_nothing_is_recognized_nothing_is_repeated(stack: Stack, fault: str) -> None:
    """DUP-08: a customer-service message that may have arrived stays one call, and the ledger says unknown."""
    await stack.ask(*VERIFIED, "你好")
    await stack.post("faults", name=fault, account="mp-main", path="message/custom/send", count=1)
    await push(stack, VERIFIED[0], [VERIFIED[1]], "可能到了", "k1")

    async def settled() -> bool:
        return [row["status"] for row in await outgoing(stack, "cause = 'push'")] == ["unknown"]

    await stack.until(settled)
    await stack.advance(3600)
    await stack.ask(*VERIFIED, "还在吗")
    assert (await stack.texts(*VERIFIED)).count("可能到了") == 1
    assert len(await sends(stack, "mp-main", "可能到了")) == 1


async def test_dup_08_an_answer_that_may_be_lost_is_repeated_once(stack: Stack) -> None:
    """DUP-08, N-05: an unknown final answer is given once more at most, so the person gets at least one."""
    stack.model.then(say("晚到的答案", delay_s=stack.s(7)))
    await stack.post("faults", name="accept_then_close", account="mp-main", path="message/custom/send")
    await stack.say(*VERIFIED, "慢问题")

    async def settled() -> bool:
        return [(row["status"], row["repeats"]) for row in await outgoing(stack)] == [("unknown", 1)]

    await stack.until(settled)
    assert len(await sends(stack, "mp-main", "晚到的答案")) == 2


async def test_dup_09_the_same_words_twice_are_two_messages(stack: Stack) -> None:
    """DUP-09: two genuine notifications, a minute apart and at the same moment, are all shown; one key is one message."""
    await push(stack, MEMBER[0], [MEMBER[1]], "库存不足", "k1")
    await stack.seen(*MEMBER, "库存不足")
    await stack.advance(60)
    for key in ("k2", "k3", "k2"):
        await push(stack, MEMBER[0], [MEMBER[1]], "库存不足", key)

    async def all_sent() -> bool:
        return [row["status"] for row in await outgoing(stack)] == ["sent"] * 3

    await stack.until(all_sent)
    assert await stack.texts(*MEMBER) == ["库存不足"] * 3


async def test_dup_09_the_same_answer_twice_is_two_answers(stack: Stack) -> None:
    """DUP-09: two questions whose late answers are equal are both answered."""
    for count, question in enumerate(("第一问", "第二问"), 1):
        stack.model.then(say("同一个答案", delay_s=stack.s(6)))
        assert passives(await stack.say(*MEMBER, question)) == [texts.RECEIPT]

        async def arrived(count: int = count) -> bool:
            return len([text for text in await stack.texts(*MEMBER) if "同一个答案" in text]) == count

        await stack.until(arrived)
