"""WeCom's rules: tokens, message/send, cards, media, robots, the address book."""

from __future__ import annotations

import io
from typing import Any

import aiohttp
import pytest

from .conftest import Sim, reply

BUTTONS = [{"text": "确认", "style": 1, "key": "yes"}, {"text": "取消", "style": 2, "key": "no"}]


def card(task_id: str = "t1", **more: Any) -> dict[str, Any]:
    """A card with two buttons."""
    title = {"title": "请确认", "desc": "给 web-01 建待办"}
    return {"card_type": "button_interaction", "main_title": title, "task_id": task_id, "button_list": BUTTONS, **more}


async def send(sim: Sim, token: str, **body: Any) -> dict[str, Any]:
    """message/send from wecom-main."""
    return await sim.api("message/send", {"agentid": 1000002, **body}, access_token=token)


async def text(sim: Sim, token: str, content: str, touser: str = "zhangsan", **more: Any) -> dict[str, Any]:
    """A text from wecom-main."""
    return await send(sim, token, touser=touser, msgtype="text", text={"content": content}, **more)


async def seen(sim: Sim, user: str = "zhangsan", account: str = "wecom-main") -> list[str]:
    """What the person has read."""
    return [entry["text"] for entry in await sim.get("inbox", account=account, user=user)]


async def test_gettoken_returns_the_same_token_while_valid(sim: Sim) -> None:
    """token.wecom"""
    account = sim.world.accounts["wecom-main"]
    query = {"corpid": account.app_id, "corpsecret": account.secret}
    first = await sim.api("gettoken", **query)
    await sim.post("clock", advance_s=7000)
    second = await sim.api("gettoken", **query)
    assert first["access_token"] == second["access_token"]
    assert second["expires_in"] <= 200
    await sim.post("clock", advance_s=300)
    assert (await text(sim, first["access_token"], "x"))["errcode"] == 42001
    assert (await sim.api("gettoken", **query))["access_token"] != first["access_token"]
    assert (await sim.api("gettoken", **{**query, "corpsecret": "wrong"}))["errcode"] == 40001
    assert (await sim.api("gettoken", corpid="ww1", corpsecret="x"))["errcode"] == 40013
    assert (await sim.api("gettoken", corpid=account.app_id))["errcode"] == 41004


async def test_error_bodies_carry_hint_and_address(sim: Sim) -> None:
    """errors"""
    body = await sim.api("message/send", {}, access_token="nonsense")
    assert body["errcode"] == 40014
    assert ", hint: [" in body["errmsg"]
    assert "from ip: 203.0.113.7" in body["errmsg"]
    assert (await sim.api("message/send", {}))["errcode"] == 41001


async def test_token_faults(sim: Sim) -> None:
    """token.wecom: revoked is 40014, expired 42001; a new token works."""
    token = await sim.token()
    await sim.post("faults", name="token_revoked")
    assert (await text(sim, token, "x"))["errcode"] == 40014
    token = await sim.token()
    await sim.post("faults", name="token_expired", account="wecom-main")
    assert (await text(sim, token, "x"))["errcode"] == 42001
    assert (await text(sim, await sim.token(), "x"))["errcode"] == 0


async def test_token_of_another_agent(sim: Sim) -> None:
    """token.scope"""
    token = await sim.token("wecom-two")
    assert (await text(sim, token, "x"))["errcode"] == 301002
    body = await sim.api(
        "message/send", {"agentid": 77, "touser": "x", "msgtype": "text", "text": {"content": "x"}}, access_token=token
    )
    assert body["errcode"] == 40056


async def test_unknown_users_are_named_lower_cased(sim: Sim) -> None:
    """send.wecom: invaliduser; only when all are unknown 81013; outside the visible range counts as unknown."""
    token = await sim.token()
    answer = await text(sim, token, "hi", touser="ZhangSan|Nobody|SunQi")
    assert (answer["errcode"], answer["invaliduser"]) == (0, "nobody|sunqi")
    assert await seen(sim) == ["hi"]
    assert (await text(sim, token, "hi", touser="Nobody"))["errcode"] == 81013
    assert (await text(sim, token, "hi", touser=""))["errcode"] == 82001
    assert (await text(sim, token, "hi", touser="|".join(f"u{i}" for i in range(1001))))["errcode"] == 40032


async def test_departments_tags_and_everybody(sim: Sim) -> None:
    """send.wecom"""
    token = await sim.token()
    await send(sim, token, toparty="2", msgtype="text", text={"content": "a"})
    await send(sim, token, totag="1", msgtype="text", text={"content": "b"})
    await text(sim, token, "c", touser="@all")
    assert await seen(sim, "lisi") == ["a", "b", "c"]
    assert await seen(sim, "wangwu") == ["c"]


async def test_thirty_first_message_of_a_minute_is_dropped_silently(sim: Sim) -> None:
    """send.wecom, wecom.send.member_rate"""
    token = await sim.token()
    answers = [await text(sim, token, str(i)) for i in range(31)]
    assert {answer["errcode"] for answer in answers} == {0}
    assert len(await seen(sim)) == 30
    await sim.post("clock", advance_s=61)
    await text(sim, token, "later")
    assert (await seen(sim))[-1] == "later"


async def test_duplicate_check(sim: Sim) -> None:
    """send.wecom: the same request is not delivered twice within the interval."""
    token = await sim.token()
    more = {"enable_duplicate_check": 1, "duplicate_check_interval": 600}
    first = await text(sim, token, "库存不足", **more)
    second = await text(sim, token, "库存不足", **more)
    assert (second["errcode"], second["msgid"]) == (0, first["msgid"])
    assert await seen(sim) == ["库存不足"]
    await text(sim, token, "库存不足")
    await sim.post("clock", advance_s=601)
    await text(sim, token, "库存不足", **more)
    assert await seen(sim) == ["库存不足"] * 3


async def test_long_text_is_cut_and_long_markdown_refused(sim: Sim) -> None:
    """send.wecom: 2048 bytes, a character may be split."""
    token = await sim.token()
    await text(sim, token, "中" * 700)
    assert (await seen(sim))[0] == "中" * 682 + "�"
    answer = await send(sim, token, touser="zhangsan", msgtype="markdown", markdown={"content": "中" * 683})
    assert answer["errcode"] == 45002
    assert (await text(sim, token, ""))["errcode"] == 44004
    assert (await send(sim, token, touser="zhangsan", msgtype="dance", dance={}))["errcode"] == 40008


async def test_escaped_json_is_recorded(sim: Sim) -> None:
    """send.wecom: escapes are accepted but visible in the record."""
    token = await sim.token()
    await text(sim, token, "中文")
    raw = '{"touser":"zhangsan","agentid":1000002,"msgtype":"text","text":{"content":"中文"}}'
    url = f"{sim.base}/cgi-bin/message/send?access_token={token}"
    async with sim.http.post(url, data=raw.encode()) as answer:
        assert (await answer.json())["errcode"] == 0
    calls = await sim.get("calls", account="wecom-main", path="message/send")
    assert [call["escaped"] for call in calls] == [True, False]


async def test_card_click_and_update(sim: Sim) -> None:
    """card: a click brings a new ResponseCode, which works once; task_id is not used twice."""
    token = await sim.token()
    sent = await send(sim, token, touser="zhangsan", msgtype="template_card", template_card=card())
    again = await send(sim, token, touser="zhangsan", msgtype="template_card", template_card=card())
    assert again["errcode"] == 42014
    await sim.post("click", account="wecom-main", user="zhangsan", task_id="t1", key="yes")
    await sim.post("click", account="wecom-main", user="zhangsan", task_id="t1", key="yes")
    first, second = (s.plaintext for s in sim.stub.seen)
    assert "<Event><![CDATA[template_card_event]]></Event>" in first
    assert "<TaskId><![CDATA[t1]]></TaskId>" in first
    codes = [p.split("<ResponseCode><![CDATA[")[1].split("]]>")[0] for p in (first, second)]
    assert len({sent["response_code"], *codes}) == 3
    body = {"userids": ["zhangsan", "x"], "agentid": 1000002, "response_code": codes[1], "button": {"replace_name": "已确认"}}
    update = await sim.api("message/update_template_card", body, access_token=token)
    assert (update["errcode"], update["invaliduser"]) == (0, ["x"])
    (entry,) = await sim.get("inbox", account="wecom-main", user="zhangsan")
    assert entry["card"]["replaced"] == "已确认"
    assert (await sim.api("message/update_template_card", body, access_token=token))["errcode"] == 60140


async def test_response_code_lasts_72_hours(sim: Sim) -> None:
    """wecom.card.response_code"""
    sent = await send(sim, await sim.token(), touser="zhangsan", msgtype="template_card", template_card=card())
    await sim.post("clock", advance_s=259_201)
    body = {"atall": 1, "agentid": 1000002, "response_code": sent["response_code"], "button": {"replace_name": "x"}}
    answer = await sim.api("message/update_template_card", body, access_token=await sim.token())
    assert answer["errcode"] == 60140


async def test_passive_update_changes_the_card(sim: Sim) -> None:
    """card"""
    await send(sim, await sim.token(), touser="zhangsan", msgtype="template_card", template_card=card())
    inner = "<MsgType>update_button</MsgType><Button><ReplaceName>已取消</ReplaceName></Button>"
    sim.stub.answer = lambda seen: reply(seen, inner)
    await sim.post("click", account="wecom-main", user="zhangsan", task_id="t1", key="no")
    (entry,) = await sim.get("inbox", account="wecom-main", user="zhangsan")
    assert entry["card"]["replaced"] == "已取消"


@pytest.mark.parametrize(
    ("broken", "errcode"),
    [
        (card(card_type="poster"), 42031),
        (card(task_id="中文"), 42014),
        (card(task_id=""), 42014),
        (card(button_list=[]), 40058),
        (card(button_list=[{"text": "", "key": "a"}]), 42038),
        (card(button_list=[{"text": "a", "key": "a"}, {"text": "b", "key": "a"}]), 42039),
        (card(horizontal_content_list=[{"keyname": "a", "value": "b"}] * 7), 42035),
        ({"card_type": "text_notice", "main_title": {"title": "x"}}, 42045),
    ],
)
async def test_malformed_cards(sim: Sim, broken: dict[str, Any], errcode: int) -> None:
    """card"""
    answer = await send(sim, await sim.token(), touser="zhangsan", msgtype="template_card", template_card=broken)
    assert answer["errcode"] == errcode


async def upload(sim: Sim, token: str, data: bytes, kind: str = "file", name: str = "周报.txt") -> dict[str, Any]:
    """media/upload with a raw UTF-8 file name."""
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("media", io.BytesIO(data), filename=name, content_type="application/octet-stream")
    url = f"{sim.base}/cgi-bin/media/upload"
    async with sim.http.post(url, data=form, params={"access_token": token, "type": kind}) as answer:
        body: dict[str, Any] = await answer.json(content_type=None)
        return body


async def test_media_round_trip(sim: Sim) -> None:
    """media"""
    token = await sim.token()
    item = await upload(sim, token, b"0123456789")
    assert isinstance(item["created_at"], str)
    await send(sim, token, touser="zhangsan", msgtype="file", file={"media_id": item["media_id"]})
    assert await seen(sim) == ["周报.txt"]
    url = f"{sim.base}/cgi-bin/media/get"
    query = {"access_token": token, "media_id": item["media_id"]}
    async with sim.http.get(url, params=query, headers={"Range": "bytes=2-4"}) as answer:
        assert (answer.status, await answer.read()) == (206, b"234")
        assert answer.headers["Content-Range"] == "bytes 2-4/10"
    await sim.post("clock", advance_s=259_201)
    assert (await sim.api("media/get", access_token=await sim.token(), media_id=item["media_id"]))["errcode"] == 40007
    answer2 = await send(sim, await sim.token(), touser="zhangsan", msgtype="file", file={"media_id": "gone"})
    assert answer2["errcode"] == 40007


async def test_media_sizes(sim: Sim) -> None:
    """wecom.media.size"""
    token = await sim.token()
    assert (await upload(sim, token, b""))["errcode"] == 44001
    assert (await upload(sim, token, b"12345"))["errcode"] == 40006
    assert (await upload(sim, token, b"x" * (2 * 1024 * 1024 + 1), "voice"))["errcode"] == 45001
    assert (await upload(sim, token, b"123456", "painting"))["errcode"] == 40004


async def test_robot_twenty_a_minute(sim: Sim) -> None:
    """webhook"""
    body = {"msgtype": "text", "text": {"content": "x"}}
    codes = [(await sim.api("webhook/send", body, key="a-good-key"))["errcode"] for _ in range(21)]
    assert codes == [0] * 20 + [45009]
    assert (await sim.api("webhook/send", body, key="bad"))["errcode"] == 93000
    assert len(await sim.get("inbox", account="group", user="a-good-key")) == 20


async def test_address_book(sim: Sim) -> None:
    """Two 张三, one person outside the visible range."""
    token = await sim.token()
    people = (await sim.api("user/simplelist", access_token=token, department_id="1"))["userlist"]
    assert sorted(p["userid"] for p in people if p["name"] == "张三") == ["zhangsan", "zhangsan02"]
    assert (await sim.api("user/get", access_token=token, userid="LiSi"))["name"] == "李四"
    assert (await sim.api("user/get", access_token=token, userid="nobody"))["errcode"] == 60111
    assert (await sim.api("user/get", access_token=token, userid="sunqi"))["errcode"] == 60011
    assert (await sim.api("agent/get", access_token=token, agentid="1000002"))["name"]
    assert (await sim.api("agent/get", access_token=token, agentid="1"))["errcode"] == 301002
    assert (await sim.api("department/list", access_token=token))["department"]
    assert (await sim.api("getcallbackip", access_token=token))["ip_list"]


async def test_approval(sim: Sim) -> None:
    """oa/applyevent keeps the application."""
    token = await sim.token()
    body = {"creator_userid": "zhangsan", "template_id": "T", "apply_data": {"contents": []}}
    number = (await sim.api("oa/applyevent", body, access_token=token))["sp_no"]
    detail = await sim.api("oa/getapprovaldetail", {"sp_no": number}, access_token=token)
    assert detail["info"]["applyer"]["userid"] == "zhangsan"
    assert (await sim.api("oa/applyevent", {**body, "creator_userid": "x"}, access_token=token))["errcode"] == 60111
