"""Area callback: what the platforms and anybody else may send to the callback URL, and what comes back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agent import texts as agent_texts
from tests.cases.scenes import (
    LABEL,
    MEMBER,
    UNVERIFIED,
    VERIFIED,
    changed_stack,
    inbound,
    outgoing,
    passives,
    prompts,
    with_accounts,
)
from tests.fakes.model_server import Answer, broken, say
from tests.stack import Stack

EVERYBODY = (MEMBER, VERIFIED, UNVERIFIED)


def url_of(stack: Stack, account: str) -> str:
    """The callback URL of an account."""
    return f"http://127.0.0.1:{stack.settings.http.port}/callback/{account}"


async def test_cb_01_02_messages_and_answers_of_every_length_arrive(stack: Stack) -> None:
    """CB-01, CB-02: 33 lengths in a row take every pad, in both directions, on a WeCom app and an Official Account."""
    stack.model.rule = lambda request: say("x" * len(str(request["messages"][-1]["content"])))
    for account, user in (MEMBER, VERIFIED):
        for length in range(1, 34):
            answer = await stack.ask(account, f"{user}{length // 15}", "y" * length)
            assert answer.startswith("x" * length)


async def test_cb_04_the_url_check_gets_the_bare_bytes(stack: Stack) -> None:
    """CB-04: 保存 in the administrator's console succeeds for every account, WeCom's within its second."""
    for account in ("wecom-main", "mp-main", "mp-sub"):
        assert await stack.post("verify", account=account) == {"ok": True, "reason": "", "status": 200}


async def test_cb_07_12_strangers_get_a_defined_text(stack: Stack) -> None:
    """CB-07, CB-12: no parameters, a wrong signature, other methods, other paths: 4xx as text, never a page or a 5xx."""
    wrong = "msg_signature=0&signature=0&timestamp=1&nonce=n&echostr=abc"
    asked: list[tuple[str, str, str]] = [
        (method, url_of(stack, account) + query, "")
        for account in ("wecom-main", "mp-main", "nobody", "%00", "..%2f..%2fetc")
        for query in ("", "?" + wrong)
        for method in ("GET", "POST", "PUT", "HEAD", "DELETE")
    ]
    root = f"http://127.0.0.1:{stack.settings.http.port}"
    asked += [("GET", root + path, "") for path in ("/", "/wecom/callback", "/index.html", "/callback", "/callback/")]
    for method, url, _ in asked:
        async with stack.http.request(method, url, data=b"<xml/>" if method == "POST" else None) as answer:
            assert 400 <= answer.status < 500, (method, url, answer.status)
            assert answer.content_type == "text/plain", (method, url)
            assert "Traceback" not in await answer.text()
    async with stack.http.get(f"{url_of(stack, 'wecom-main')}?{wrong}") as answer:
        assert answer.status == 403


async def test_cb_10_only_msg_signature_counts_in_safe_mode(stack: Stack) -> None:
    """CB-10: a bad `signature` beside a good msg_signature passes; swapped, it is refused."""
    await stack.ask(*VERIFIED, "帮助")
    exchange = (await stack.get("exchanges", account=VERIFIED[0]))[-1]["attempts"][-1]
    query = dict(pair.split("=", 1) for pair in urlsplit(exchange["url"]).query.split("&"))
    good = query["msg_signature"]
    for signature, msg_signature, status in (("bad", good, 200), (good, "bad", 403), (good, "", 403), ("", good, 200)):
        parts = {**query, "signature": signature, "msg_signature": msg_signature}
        asked = url_of(stack, VERIFIED[0]) + "?" + "&".join(f"{name}={value}" for name, value in parts.items() if value)
        async with stack.http.post(asked, data=exchange["request"].encode()) as answer:
            assert answer.status == status, (signature, msg_signature)


@pytest.mark.parametrize("account", ["wecom-main", "mp-main"])
async def test_cb_10_a_plain_body_is_refused_whatever_encrypt_type_says(stack: Stack, account: str) -> None:
    """CB-10, N-11: nobody forges a message by leaving the encryption out, even with a good plain signature."""
    configured = stack.settings.account(account)
    assert configured is not None
    now = str(int((await stack.get("clock"))["now_ms"]) // 1000)
    plain = hashlib.sha1("".join(sorted((configured.callback_token, now, "n"))).encode()).hexdigest()  # noqa: S324 -- the platforms' own
    body = "<xml><ToUserName>x</ToUserName><FromUserName>admin</FromUserName><MsgType>text</MsgType><Content>hi</Content></xml>"
    for encrypt_type in ("", "&encrypt_type=raw", "&encrypt_type=aes"):
        query = f"?signature={plain}&msg_signature={plain}&timestamp={now}&nonce=n{encrypt_type}"
        async with stack.http.post(url_of(stack, account) + query, data=body) as answer:
            assert 400 <= answer.status < 500
    assert await inbound(stack) == []


@pytest.mark.parametrize("text", ["a[b[0]]>1", "]]>", "<![CDATA[x]]>", "a<b&c>\"d'", "]]]]>>"])
async def test_cb_17_any_answer_survives_the_reply(stack: Stack, text: str) -> None:
    """CB-17: ``]]>`` and its relatives arrive as written, encrypted, on every account."""
    for number, (account, user) in enumerate(EVERYBODY):
        stack.model.then(say(f"答{number}：{text}"))
        answer = await stack.ask(account, user, "问")
        assert answer.removesuffix(LABEL) == f"答{number}：{text}"


@pytest.mark.parametrize("empty", [say(""), say(" \n"), broken("empty_answer"), broken("empty_stream")])
async def test_cb_09_18_an_empty_answer_is_a_sentence_never_an_empty_content(stack: Stack, empty: Answer) -> None:
    """CB-09, CB-18: no 该公众号暂时无法提供服务: a human sentence, whatever kind of nothing the model says."""
    stack.model.rule = lambda request: empty
    for account, user in EVERYBODY:
        seen = passives(await stack.say(account, user, "问"))
        assert len(seen) == 1
        assert "没能完成" in seen[0]
        assert "无法提供服务" not in "".join(await stack.texts(account, user))


async def test_cb_20_ids_stay_strings_and_wecom_ignores_their_case(stack: Stack) -> None:
    """CB-20: 0020001 keeps its zeros in the session and on the way back; ZhangSan and zhangsan are one person."""
    stack.model.then(say("字" * 1000), say("二"), say("三"))
    await stack.say("wecom-main", "0020001", "你好")

    async def pushed() -> bool:
        return len(await stack.calls("wecom-main", "message/send")) == 1

    await stack.until(pushed)
    assert (await stack.calls("wecom-main", "message/send"))[0]["body"]["touser"] == "0020001"
    assert [row["user_id"] for row in await inbound(stack)] == ["0020001"]
    await stack.say("wecom-main", "zhangsan", "第一句")
    await stack.say("wecom-main", "ZhangSan", "第二句")
    rows = await inbound(stack)
    assert rows[1]["conversation_id"] == rows[2]["conversation_id"] != rows[0]["conversation_id"]
    assert "第一句" in str(stack.model.requests[-1]["messages"])


async def test_cb_20_commands_come_before_any_model(stack: Stack) -> None:
    """CB-20: /reset and its relatives never reach the model, on any account."""
    for account, user in EVERYBODY:
        for text in ("/reset", "／新会话", "/help", "重置", "/New", " /状态 "):
            assert await stack.ask(account, user, text)
    assert stack.model.requests == []


async def test_cb_21_mentions_that_are_not_ours_stay(tmp_path: Path, valkey: str) -> None:
    """CB-21: 会议用 @H323 接入 is unchanged; only our own mention at the start goes, with the comma people put there."""
    said = {
        "会议用 @H323 接入": "会议用 @H323 接入",
        "@H323 怎么接": "@H323 怎么接",
        "@小驿 帮我查": "帮我查",
        "@小驿，帮我查": "帮我查",
        "@小驿站 帮我查": "@小驿站 帮我查",
    }

    def named(settings: Any) -> Any:
        return with_accounts(settings, lambda account: account.model_copy(update={"bot_name": "小驿"}))

    async with changed_stack(tmp_path, valkey, named) as stack:
        for text in said:
            await stack.ask(*MEMBER, text)
        assert prompts(stack.model) == list(said.values())
        for text in ("@小驿 帮助", "@小驿，帮助", "@小驿帮助"):
            assert (await stack.ask(*MEMBER, text)).startswith(agent_texts.HELP_TITLE)
        assert len(stack.model.requests) == len(said)


async def test_cb_22_oa5_23_a_customer_service_notice_is_acknowledged_and_kept(stack: Stack) -> None:
    """CB-22, OA5-23: this product does not serve 微信客服; its events are acknowledged at once, stored and never answered."""
    for number in range(3):
        fields = {"Token": f"ENC{number}", "OpenKfId": "wkAJ2GCAAASSm4_FhToWMFea0xAFfd3Q"}
        said = await stack.post("event", account="wecom-main", user="sys", event="kf_msg_or_event", fields=fields)
        assert [(d["status"], d["passive"]) for d in said["deliveries"]] == [(200, None)]
    assert len(await inbound(stack)) == 3
    assert (await outgoing(stack), stack.model.requests) == ([], [])
