"""Official Account rules: tokens, customer-service windows, templates, menus."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Sim, text_reply
from .test_wecom_rules import upload


async def custom(sim: Sim, token: str, content: str = "x", user: str = "o1", **more: Any) -> int:
    """A customer-service text; its errcode."""
    body = {"touser": user, "msgtype": "text", "text": {"content": content}, **more}
    return int((await sim.api("message/custom/send", body, access_token=token))["errcode"])


def _credential(sim: Sim, account: str = "mp-main") -> dict[str, str]:
    known = sim.world.accounts[account]
    return {"grant_type": "client_credential", "appid": known.app_id, "secret": known.secret}


async def test_plain_token_overlaps_300_seconds(sim: Sim) -> None:
    """token.oa"""
    await sim.post("say", account="mp-main", user="o1", text="x")
    first = (await sim.api("token", **_credential(sim)))["access_token"]
    second = (await sim.api("token", **_credential(sim)))["access_token"]
    assert first != second
    assert await custom(sim, first) == 0
    await sim.post("clock", advance_s=301)
    assert await custom(sim, first) == 40001
    assert await custom(sim, second) == 0
    third = (await sim.api("token", **_credential(sim)))["access_token"]
    await sim.api("token", **_credential(sim))
    assert await custom(sim, second) == 40001
    assert await custom(sim, third) == 0


async def test_plain_token_2000_a_day(sim: Sim) -> None:
    """oa.token.daily"""
    account = sim.world.accounts["mp-main"]
    for _ in range(2000):
        sim.world.tokens.plain(account)
    assert (await sim.api("token", **_credential(sim)))["errcode"] == 45009
    await sim.post("clock", advance_s=86_400)
    assert "access_token" in await sim.api("token", **_credential(sim))


async def test_clear_quota_ten_times_a_month(sim: Sim) -> None:
    """oa.clear_quota"""
    token = await sim.token("mp-main")
    account = sim.world.accounts["mp-main"]
    for _ in range(2000):
        sim.world.tokens.plain(account)
    codes = [(await sim.api("clear_quota", {"appid": account.app_id}, access_token=token))["errcode"] for _ in range(11)]
    assert codes == [0] * 10 + [48006]
    assert "access_token" in await sim.api("token", **_credential(sim))


async def test_stable_token(sim: Sim) -> None:
    """oa.stable.normal, oa.stable.force"""
    body = _credential(sim)
    first = await sim.api("stable_token", body)
    assert "errcode" not in first
    assert (await sim.api("stable_token", body))["access_token"] == first["access_token"]
    await sim.post("clock", advance_s=6950)
    renewed = await sim.api("stable_token", body)
    assert renewed["access_token"] != first["access_token"]
    assert sim.world.tokens.check(first["access_token"])[1] == 0
    forced = await sim.api("stable_token", {**body, "force_refresh": True})
    assert sim.world.tokens.check(renewed["access_token"])[1] == 40001
    again = await sim.api("stable_token", {**body, "force_refresh": True})
    assert again["access_token"] == forced["access_token"]
    for _ in range(19):
        await sim.post("clock", advance_s=31)
        assert "access_token" in await sim.api("stable_token", {**body, "force_refresh": True})
    await sim.post("clock", advance_s=31)
    assert (await sim.api("stable_token", {**body, "force_refresh": True}))["errcode"] == 45009


async def test_wrong_credentials(sim: Sim) -> None:
    """oa.token"""
    body = _credential(sim)
    answer = await sim.api("stable_token", {**body, "secret": "wrong"})
    assert (answer["errcode"], " rid: " in answer["errmsg"]) == (40125, True)
    assert (await sim.api("stable_token", {**body, "appid": "wx1"}))["errcode"] == 40013
    assert (await sim.api("token", appid=body["appid"], secret=body["secret"]))["errcode"] == 40002


async def test_token_invalid_now(sim: Sim) -> None:
    """The platform that invalidates at once: no overlap."""
    token = (await sim.api("token", **_credential(sim)))["access_token"]
    await sim.post("faults", name="token_invalid_now", account="mp-main")
    assert await custom(sim, token) == 40001
    first = (await sim.api("token", **_credential(sim)))["access_token"]
    await sim.api("token", **_credential(sim))
    assert await custom(sim, first) == 40001


async def test_five_messages_in_48_hours(sim: Sim) -> None:
    """oa.custom"""
    token = await sim.token("mp-main")
    await sim.post("people", account="mp-main", user="o1")
    assert await custom(sim, token) == 45015
    await sim.post("say", account="mp-main", user="o1", text="x")
    assert [await custom(sim, token) for _ in range(6)] == [0] * 5 + [45047]
    await sim.post("say", account="mp-main", user="o1", text="x")
    assert await custom(sim, token) == 0
    await sim.post("clock", advance_s=172_801)
    assert await custom(sim, await sim.token("mp-main")) == 45015
    assert await custom(sim, await sim.token("mp-main"), user="stranger") == 40003


async def test_three_messages_a_minute_after_a_click(sim: Sim) -> None:
    """oa.cs.window"""
    token = await sim.token("mp-main")
    await sim.post("event", account="mp-main", user="o2", event="CLICK", key="k")
    assert [await custom(sim, token, user="o2") for _ in range(4)] == [0] * 3 + [45047]
    await sim.post("event", account="mp-main", user="o2", event="click", key="k")
    await sim.post("clock", advance_s=61)
    assert await custom(sim, token, user="o2") == 45015


async def test_unsubscribed_and_unverified(sim: Sim) -> None:
    """oa.custom: 45015 after unsubscribing, 48001 without verification."""
    await sim.post("say", account="mp-main", user="o1", text="x")
    await sim.post("event", account="mp-main", user="o1", event="unsubscribe")
    assert await custom(sim, await sim.token("mp-main")) == 45015
    await sim.post("say", account="mp-sub", user="o9", text="x")
    assert await custom(sim, await sim.token("mp-sub"), user="o9") == 48001
    assert (await upload(sim, await sim.token("mp-sub"), b"123456", "image"))["errcode"] == 48001


async def test_content_rules(sim: Sim) -> None:
    """oa.cs.text, oa.cs.news"""
    await sim.post("say", account="mp-main", user="o1", text="x")
    token = await sim.token("mp-main")
    assert await custom(sim, token, "中" * 683) == 45002
    assert await custom(sim, token, "") == 44004
    two = {"articles": [{"title": "a"}, {"title": "b"}]}
    assert await custom(sim, token, msgtype="news", news=two) == 45008
    assert await custom(sim, token, msgtype="image", image={"media_id": "x"}) == 40007


async def test_error_bodies_are_text_plain(sim: Sim) -> None:
    """errors"""
    url = f"{sim.base}/cgi-bin/message/custom/send"
    async with sim.http.post(url, json={}, params={"access_token": "x"}) as answer:
        assert answer.content_type == "text/plain"
        assert (await answer.json(content_type=None))["errcode"] == 40001


async def test_typing(sim: Sim) -> None:
    """oa.cs.typing"""
    token = await sim.token("mp-main")
    body = {"touser": "o1", "command": "Typing"}
    await sim.post("people", account="mp-main", user="o1")
    assert (await sim.api("message/custom/typing", body, access_token=token))["errcode"] == 45080
    await sim.post("say", account="mp-main", user="o1", text="x")
    codes = [(await sim.api("message/custom/typing", body, access_token=token))["errcode"] for _ in range(2)]
    assert codes == [0, 45081]


async def test_msgmenu_click_comes_back_as_text(sim: Sim) -> None:
    """oa.custom.msgmenu"""
    await sim.post("say", account="mp-main", user="o1", text="x")
    menu = {"head_content": "满意吗", "list": [{"id": "101", "content": "满意"}]}
    assert await custom(sim, await sim.token("mp-main"), msgtype="msgmenu", msgmenu=menu) == 0
    await sim.post("click", account="mp-main", user="o1", key="101")
    plaintext = sim.stub.seen[-1].plaintext
    assert "<Content><![CDATA[满意]]></Content>" in plaintext
    assert "<bizmsgmenuid><![CDATA[101]]></bizmsgmenuid>" in plaintext


@pytest.mark.parametrize(
    ("fault", "status", "shown"),
    [(None, "success", 1), ("template_blocked", "failed:user block", 0), ("template_failed", "failed: system failed", 0)],
)
async def test_template_result_event(sim: Sim, fault: str | None, status: str, shown: int) -> None:
    """oa.tpl"""
    await sim.post("people", account="mp-main", user="o1")
    if fault:
        await sim.post("faults", name=fault, count=1)
    token = await sim.token("mp-main")
    body = {"touser": "o1", "template_id": "T", "client_msg_id": "c1", "data": {"k": {"value": "巧克力"}}}
    sim.stub.answer = lambda seen: text_reply(seen, "event seen")
    answer = await sim.api("message/template/send", body, access_token=token)
    again = await sim.api("message/template/send", body, access_token=token)
    assert again["msgid"] == answer["msgid"]
    inbox = await sim.get("inbox", account="mp-main", user="o1", after=shown, wait_s=5)
    assert [entry["text"] for entry in inbox] == ["event seen"]
    assert len(sim.stub.seen) == 1
    assert f"<Status><![CDATA[{status}]]></Status>" in sim.stub.seen[0].plaintext
    assert f"<MsgID>{answer['msgid']}</MsgID>" in sim.stub.seen[0].plaintext


async def test_menus(sim: Sim) -> None:
    """menu create, get, delete, self menu"""
    token = await sim.token("mp-main")
    assert (await sim.api("menu/get", access_token=token))["errcode"] == 46003
    assert (await sim.api("get_current_selfmenu_info", access_token=token))["is_menu_open"] == 1
    menu = {"button": [{"type": "click", "name": "帮助", "key": "help"}]}
    assert (await sim.api("menu/create", menu, access_token=token))["errcode"] == 0
    assert (await sim.api("menu/get", access_token=token))["menu"] == menu
    assert (await sim.api("menu/create", {"button": [{"name": "x"}] * 4}, access_token=token))["errcode"] == 40016
    assert (await sim.api("menu/delete", access_token=token))["errcode"] == 0
    assert (await sim.api("menu/create", menu, access_token=await sim.token("mp-sub")))["errcode"] == 48001
    wecom = await sim.token()
    assert (await sim.api("menu/create", menu, access_token=wecom, agentid="1000002"))["errcode"] == 0
    assert (await sim.api("menu/get", access_token=wecom, agentid="1000002"))["button"] == menu["button"]
