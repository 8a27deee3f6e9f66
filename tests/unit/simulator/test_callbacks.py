"""Callback exchanges: signatures, modes, five seconds, three tries, passive replies; checked with wechatpy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scripts.simulator.callbacks import UNAVAILABLE

from .conftest import Seen, Sim, reply, text_reply


@pytest.mark.parametrize("account", ["wecom-main", "mp-main", "mp-compat", "mp-plain"])
async def test_say_reaches_the_gateway_and_its_passive_reply_the_person(sim: Sim, account: str) -> None:
    """callback.sign, callback.oa.modes: wechatpy opens what we seal, and we open what it seals."""
    sim.stub.answer = lambda seen: text_reply(seen, "你好")
    result = await sim.post("say", account=account, user="someone", text="在吗 ]]> <x>")
    assert len(result["deliveries"]) == 1
    delivery = result["deliveries"][0]
    assert (delivery["attempt"], delivery["status"], delivery["passive"]) == (1, 200, "你好")
    assert result["message_id"] in sim.stub.seen[0].plaintext
    assert "<MsgType><![CDATA[text]]></MsgType>" in sim.stub.seen[0].plaintext
    inbox = await sim.get("inbox", account=account, user="someone")
    assert [(e["n"], e["via"], e["kind"], e["text"], e["card"]) for e in inbox] == [(1, "passive", "text", "你好", None)]
    assert await sim.get("inbox", account=account, user="someone", after=1) == []


async def test_compat_carries_both_copies_and_safe_only_one(sim: Sim) -> None:
    """callback.oa.modes"""
    await sim.post("say", account="mp-compat", user="o1", text="甲乙丙")
    await sim.post("say", account="mp-main", user="o1", text="甲乙丙")
    compat, safe = sim.stub.seen
    assert "甲乙丙".encode() in compat.body
    assert b"<Encrypt>" in compat.body
    assert "甲乙丙".encode() not in safe.body
    for seen in (compat, safe):
        assert {"signature", "msg_signature", "encrypt_type", "openid", "timestamp", "nonce"} <= set(seen.query)


async def test_paddings_of_every_length_are_opened_by_wechatpy(sim: Sim) -> None:
    """callback.sign: pads 1..32 all occur."""
    for length in range(33):
        await sim.post("say", account="wecom-main", user="zhangsan", text="a" * length)
    assert [seen.plaintext.count("a") >= length for length, seen in enumerate(sim.stub.seen)] == [True] * 33


def _slow(times: int, content: str) -> Callable[[Seen], Awaitable[bytes]]:
    async def answer(seen: Seen) -> bytes:
        if seen.number <= times:
            await asyncio.sleep(3)
        return text_reply(seen, content)

    return answer


@pytest.mark.parametrize("account", ["wecom-main", "mp-main"])
async def test_the_platform_hangs_up_and_delivers_the_same_message_again(sim: Sim, account: str) -> None:
    """callback.retry: the same XML, a new signature, the first good reply wins."""
    sim.stub.answer = _slow(2, "来了")
    result = await sim.post("say", account=account, user="u1", text="慢")
    assert [d["status"] for d in result["deliveries"]] == [0, 0, 200]
    assert [d["outcome"] for d in result["deliveries"]] == ["timeout", "timeout", "ok"]
    assert result["deliveries"][0]["ms"] >= 400
    assert len({seen.plaintext for seen in sim.stub.seen}) == 1
    assert len({seen.query["msg_signature"] for seen in sim.stub.seen}) == 3
    assert [e["text"] for e in await sim.get("inbox", account=account, user="u1")] == ["来了"]


async def test_three_timeouts_show_the_follower_the_platforms_own_text(sim: Sim) -> None:
    """callback.oa.badreply"""
    sim.stub.answer = _slow(9, "never")
    await sim.post("say", account="mp-main", user="o1", text="慢")
    await sim.post("say", account="wecom-main", user="zhangsan", text="慢")
    inbox = await sim.get("inbox", account="mp-main", user="o1")
    assert [(e["via"], e["text"]) for e in inbox] == [("platform", UNAVAILABLE)]
    assert await sim.get("inbox", account="wecom-main", user="zhangsan") == []


@pytest.mark.parametrize(
    "body",
    [b"<xml><Oops>", b'{"msg": 1}', b"done", b"<xml></xml>", "empty", "other", "unencrypted"],
)
async def test_a_bad_reply_is_shown_to_followers_and_ignored_by_wecom(sim: Sim, body: bytes | str) -> None:
    """callback.oa.badreply"""

    def answer(seen: Seen) -> bytes:
        if body == "empty":
            return text_reply(seen, "")
        if body == "other":
            return text_reply(seen, "x", user="somebody-else")
        if body == "unencrypted":
            return b"<xml><ToUserName>u1</ToUserName><MsgType>text</MsgType><Content>x</Content></xml>"
        return body if isinstance(body, bytes) else body.encode()

    sim.stub.answer = answer
    for account in ("mp-main", "wecom-main"):
        result = await sim.post("say", account=account, user="u1", text="x")
        assert [d["outcome"] for d in result["deliveries"]] == ["bad_reply"]
        assert result["deliveries"][0]["reason"]
    assert [e["text"] for e in await sim.get("inbox", account="mp-main", user="u1")] == [UNAVAILABLE]
    assert await sim.get("inbox", account="wecom-main", user="u1") == []


async def test_a_server_error_is_not_delivered_again(sim: Sim) -> None:
    """wecom.cb.reply: only network failures and timeouts are retried."""
    sim.stub.answer = lambda seen: (500, b"oops")
    result = await sim.post("say", account="wecom-main", user="zhangsan", text="x")
    assert [(d["attempt"], d["status"]) for d in result["deliveries"]] == [(1, 500)]


async def test_a_refused_connection_and_a_lost_answer_are_delivered_again(sim: Sim) -> None:
    """callback.retry"""
    sim.stub.answer = lambda seen: text_reply(seen, "好")
    await sim.post("faults", name="callback_refused", count=1)
    await sim.post("faults", name="callback_lose_reply", count=1)
    result = await sim.post("say", account="mp-main", user="o1", text="x")
    assert [d["outcome"] for d in result["deliveries"]] == ["connection", "lost", "ok"]
    assert [e["text"] for e in await sim.get("inbox", account="mp-main", user="o1")] == ["好"]


async def test_latency_counts_inside_the_deadline(sim: Sim) -> None:
    """OA5-13: latency each way eats into the platform's patience."""
    sim.stub.answer = lambda seen: text_reply(seen, "好")
    await sim.post("faults", name="callback_latency_ms", ms=100)
    fine = await sim.post("say", account="mp-main", user="o1", text="x")
    assert fine["deliveries"][0]["ms"] >= 200
    await sim.post("faults", name="callback_latency_ms", ms=300)
    late = await sim.post("say", account="mp-main", user="o1", text="x")
    assert [d["outcome"] for d in late["deliveries"]] == ["timeout"] * 3


async def test_one_message_to_two_replicas_at_once_is_answered_once(sim: Sim) -> None:
    """callback.order: the same MsgId to two gateways; the person sees one answer."""
    sim.stub.answer = lambda seen: text_reply(seen, "好")
    url = sim.world.accounts["wecom-main"].callback_url
    result = await sim.post("say", account="wecom-main", user="zhangsan", text="x", repeat_to=[url, url])
    assert len(result["deliveries"]) == 2
    assert len({seen.plaintext for seen in sim.stub.seen}) == 1
    assert len(await sim.get("inbox", account="wecom-main", user="zhangsan")) == 1


async def test_raw_xml_and_redelivery(sim: Sim) -> None:
    """A test's own payload goes out verbatim, and again as a late redelivery."""
    xml = "<xml><FromUserName>zhangsan</FromUserName><MsgType>hologram</MsgType><MsgId>5</MsgId></xml>"
    await sim.post("say", account="wecom-main", user="zhangsan", raw_xml=xml, message_id="5")
    await sim.post("say", redeliver="5")
    assert [seen.plaintext for seen in sim.stub.seen] == [xml, xml]


async def test_wait_false_returns_at_once(sim: Sim) -> None:
    """The exchange goes on in the background."""
    sim.stub.answer = _slow(1, "后来")
    result = await sim.post("say", account="mp-main", user="o1", text="x", wait=False)
    assert result["deliveries"] == []
    inbox = await sim.get("inbox", account="mp-main", user="o1", wait_s=5)
    assert [e["text"] for e in inbox] == ["后来"]


@pytest.mark.parametrize(
    ("inner", "kind", "text"),
    [
        ("<MsgType>image</MsgType><Image><MediaId>m1</MediaId></Image>", "image", "[图片]"),
        (
            "<MsgType>news</MsgType><ArticleCount>1</ArticleCount><Articles><item><Title>标题</Title>"
            "<Url>http://x</Url></item></Articles>",
            "news",
            "标题",
        ),
    ],
)
async def test_other_passive_kinds(sim: Sim, inner: str, kind: str, text: str) -> None:
    """Pictures and articles arrive as what they are."""
    sim.stub.answer = lambda seen: reply(seen, inner)
    await sim.post("say", account="mp-main", user="o1", text="x")
    (entry,) = await sim.get("inbox", account="mp-main", user="o1")
    assert (entry["kind"], entry["text"]) == (kind, text)
    assert entry["card"]


async def test_verification_of_the_url(sim: Sim) -> None:
    """callback.verify"""
    for account in ("wecom-main", "mp-main", "mp-plain"):
        assert (await sim.post("verify", account=account))["ok"] is True


@pytest.mark.parametrize("wrap", [b'"%s"', b"%s\n", b"\xef\xbb\xbf%s"])
async def test_verification_wants_the_exact_bytes(sim: Sim, wrap: bytes) -> None:
    """callback.verify: no quotes, no newline, no BOM."""
    sim.stub.echo = lambda exact: wrap % exact
    result = await sim.post("verify", account="wecom-main")
    assert result == {"ok": False, "reason": "the body is not exactly echostr", "status": 200}
