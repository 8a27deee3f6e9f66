"""The API clients against a loopback platform that misbehaves in every way."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from agent.protocol import Reply
from config.clock import FixedClock
from config.errors import Refused
from gateway.channel import Part, Target
from gateway.channels import open_channels
from gateway.errors import Action, PlatformError, action_for
from gateway.mp import MpChannel
from gateway.transport import multipart
from gateway.wecom import WecomChannel
from tests.fakes.accounts import MP_SECRET, WECOM_SECRET, mp_account, settings_of, wecom_account
from tests.fakes.platform import Handler, Platform, serve

TOKEN = "an-access-token-that-must-not-show"
_CANARY_BODY = "正文里的金丝雀"


class World:
    """One platform, one session, both channels."""

    def __init__(self, platform: Platform, session: aiohttp.ClientSession, **account: Any) -> None:
        platform.answers.setdefault("/cgi-bin/gettoken", [{"errcode": 0, "access_token": TOKEN, "expires_in": 7200}])
        platform.answers.setdefault("/cgi-bin/stable_token", [{"access_token": TOKEN, "expires_in": 7200}])
        self.platform = platform
        base = {"api_base": platform.base, **account}
        settings = settings_of(wecom_account(**base), mp_account(**base))
        settings = settings.model_copy(
            update={"tenants": tuple(t.model_copy(update={"alert_webhook": None}) for t in settings.tenants)}
        )
        self.channels = open_channels(settings, session, None, FixedClock())
        wecom, mp = self.channels.by_account["wecom-main"], self.channels.by_account["mp-main"]
        assert isinstance(wecom, WecomChannel)
        assert isinstance(mp, MpChannel)
        wecom.media._root = mp.media._root = None
        self.wecom, self.mp = wecom, mp


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serve(Platform()) as platform, aiohttp.ClientSession() as session:
        yield World(platform, session)


async def _send(channel: WecomChannel | MpChannel, user: str, text: str = "好") -> Any:
    part = channel.render(Reply(text=text))[0]
    target = Target(users=(user,))
    body = await channel.freeze(part, target, duplicate_check=True, key="k1")
    return await channel.send(part.kind, body, target=target)


OPEN_ID = "oOPENID000000000000000000000"


async def test_wecom_sends_raw_utf8_with_the_duplicate_check(world: World) -> None:
    """message/send: raw UTF-8 JSON, receivers joined, the same bytes each time."""
    world.platform.answers["/cgi-bin/message/send"] = [{"errcode": 0, "errmsg": "ok", "msgid": "MSG1"}]
    outcome = await _send(world.wecom, "zhangsan")
    assert (outcome.transport, outcome.errcode, outcome.platform_id) == ("answered", 0, "MSG1")
    (_, query, body), *_ = world.platform.calls("/cgi-bin/message/send")
    assert query == {"access_token": TOKEN}
    assert body.decode() == (
        '{"touser":"zhangsan","msgtype":"text","agentid":1000002,"text":{"content":"好"},'
        '"enable_duplicate_check":1,"duplicate_check_interval":1800}'
    )


async def test_mp_sends_to_the_openid(world: World) -> None:
    world.platform.answers["/cgi-bin/message/custom/send"] = [{"errcode": 0, "errmsg": "ok"}]
    assert (await _send(world.mp, OPEN_ID)).errcode == 0
    (_, _, body), *_ = world.platform.calls("/cgi-bin/message/custom/send")
    assert body.decode() == f'{{"touser":"{OPEN_ID}","msgtype":"text","text":{{"content":"好"}}}}'


async def test_del_12_invalid_users_are_named(world: World) -> None:
    """DEL-12: a|ghost: the send is good, ghost is named; a list works too."""
    world.platform.answers["/cgi-bin/message/send"] = [
        {"errcode": 0, "errmsg": "ok", "msgid": "m", "invaliduser": "ghost"},
        {"errcode": 0, "errmsg": "ok", "invaliduser": ["ghost", "b"]},
        {"errcode": 0, "errmsg": "ok", "invaliduser": ""},
    ]
    part, target = world.wecom.render(Reply(text="x"))[0], Target(users=("a", "ghost"))
    body = await world.wecom.freeze(part, target, duplicate_check=False, key="k")
    assert json.loads(body)["touser"] == "a|ghost"
    found = [(await world.wecom.send("text", body, target=target)).invalid_users for _ in range(3)]
    assert found == [("ghost",), ("ghost", "b"), ()]


async def test_del_21_success_means_errcode_0_and_nothing_else(world: World) -> None:
    """DEL-21: HTTP 200 with 45047 is not sent; an answer without an errcode is not success either."""
    world.platform.answers["/cgi-bin/message/custom/send"] = [{"errcode": 45047, "errmsg": "out of response count limit"}]
    outcome = await _send(world.mp, OPEN_ID)
    assert (outcome.transport, outcome.errcode) == ("answered", 45047)
    assert action_for("mp", outcome.errcode) is Action.park
    world.platform.answers["/cgi-bin/message/custom/send"] = [{"errmsg": "ok"}]
    assert (await _send(world.mp, OPEN_ID)).transport == "unknown"


@pytest.mark.parametrize("user", [OPEN_ID, "wmAJ2GCAAAme1XQRC-NI-q0_ZM9ukoAw", "张三", "", "a|b"])
async def test_del_25_other_ids_are_refused_locally(world: World, user: str) -> None:
    """DEL-25: an openid, an external contact or nonsense never goes through the WeCom account."""
    with pytest.raises(Refused):
        await _send(world.wecom, user)
    assert world.platform.requests == []


async def test_del_04_the_proxy_sees_the_requests() -> None:
    """DEL-04: with proxy_url set every call goes through it; an https base arrives as CONNECT."""
    seen: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, serve(Platform()) as platform, aiohttp.ClientSession() as session:
        world = World(platform, session, api_base="https://qyapi.example", proxy_url=f"http://127.0.0.1:{port}")
        assert (await _send(world.wecom, "zhangsan")).transport == "not_sent"
    assert seen == ["CONNECT qyapi.example:443 HTTP/1.1\r\n"]


def _raw(status: int, body: bytes, content_type: str = "application/json") -> Handler:
    return lambda _request, _body: web.Response(status=status, body=body, content_type=content_type)


async def _drop(request: web.Request, _body: bytes) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize(
    ("answer", "transport", "errcode"),
    [
        pytest.param(_raw(502, b"<html>bad gateway</html>", "text/html"), "unknown", None, id="502"),
        pytest.param(_raw(200, b"<html>hi</html>", "text/html"), "unknown", None, id="html"),
        pytest.param(_raw(200, b""), "unknown", None, id="empty"),
        pytest.param(_raw(200, b'{"errcode": 0, "errm'), "unknown", None, id="cut"),
        pytest.param(_raw(200, b"[1]"), "unknown", None, id="not an object"),
        pytest.param(_drop, "unknown", None, id="dropped"),
        pytest.param(_raw(200, b'{"errcode":"45015","errmsg":"x"}', "text/plain"), "answered", 45015, id="text/plain, string"),
        pytest.param(_raw(200, b'{"errcode":0,"errmsg":"\xff\x01ok"}'), "answered", 0, id="bad bytes in errmsg"),
        pytest.param(_raw(302, b"", "text/html"), "unknown", None, id="redirect"),
    ],
)
async def test_any_answer_is_read(world: World, answer: Handler, transport: str, errcode: int | None) -> None:
    """Content type does not matter; whatever is no clear answer leaves the outcome unknown."""
    world.platform.answers["/cgi-bin/message/send"] = answer
    outcome = await _send(world.wecom, "zhangsan")
    assert (outcome.transport, outcome.errcode) == (transport, errcode)
    assert len(world.platform.calls("/cgi-bin/message/send")) == 1


async def test_a_refused_connection_was_not_sent() -> None:
    async with serve(Platform()) as platform:
        base = platform.base
    async with aiohttp.ClientSession() as session:
        platform.base = base
        assert (await _send(World(platform, session).wecom, "zhangsan")).transport == "not_sent"


async def test_n22_no_failure_shows_a_secret(world: World, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    """N-22: every kind of client failure; nothing that is returned, raised or logged holds a token, secret or body."""
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []

    def echo(request: web.Request, _body: bytes) -> dict[str, Any]:
        secret = MP_SECRET if "custom" in request.path else WECOM_SECRET
        return {"errcode": 40058, "errmsg": f"bad {request.query} {secret}"}

    answers: list[Any] = [_raw(502, b"x"), _raw(200, b"<html>"), _drop, echo, [{"errcode": 40014, "errmsg": TOKEN}]]
    for answer in answers:
        for path in ("/cgi-bin/message/send", "/cgi-bin/message/custom/send"):
            world.platform.answers[path] = answer
        shown.append(repr(await _send(world.wecom, "zhangsan", _CANARY_BODY)))
        shown.append(repr(await _send(world.mp, OPEN_ID, _CANARY_BODY)))
    world.platform.answers["/cgi-bin/gettoken"] = [{"errcode": 40013, "errmsg": f"invalid {WECOM_SECRET}"}]
    world.platform.answers["/cgi-bin/stable_token"] = [{"errcode": 40013, "errmsg": f"invalid {MP_SECRET}"}]
    async with serve(world.platform), aiohttp.ClientSession() as session:
        fresh = World(world.platform, session)
        shown.append(repr(await _send(fresh.wecom, "zhangsan", _CANARY_BODY)))
        for client in fresh.channels.clients.values():
            with pytest.raises(PlatformError) as caught:
                await client.fetch_token(True)
            shown.append(repr(caught.value) + str(caught.value) + caught.value.errmsg)
    captured = capfd.readouterr()
    everything = "\n".join([*shown, caplog.text, captured.out, captured.err])
    for secret in (TOKEN, WECOM_SECRET, MP_SECRET, _CANARY_BODY):
        assert secret not in everything


async def test_media_is_uploaded_once_with_its_name_as_raw_utf8(world: World, tmp_path: Path) -> None:
    """Upload right before the send; the id is remembered; 40007 forgets it, so that freezing again uploads again."""
    file = tmp_path / "周报.txt"
    file.write_bytes(b"some text")
    world.platform.answers["/cgi-bin/media/upload"] = [
        {"errcode": 0, "errmsg": "", "type": "file", "media_id": f"MEDIA{n}", "created_at": "1"} for n in (1, 2)
    ]
    world.platform.answers["/cgi-bin/message/send"] = [{"errcode": 0, "errmsg": "ok"}, {"errcode": 40007, "errmsg": "x"}]
    part = world.wecom.render(Reply(kind="file", data={"path": str(file)}))[0]
    target = Target(users=("zhangsan",))
    bodies = []
    for _ in range(3):
        body = await world.wecom.freeze(part, target, duplicate_check=False, key="k")
        bodies.append(json.loads(body)["file"])
        await world.wecom.send("file", body, target=target)
    assert bodies == [{"media_id": "MEDIA1"}, {"media_id": "MEDIA1"}, {"media_id": "MEDIA2"}]
    (_, query, sent), *_ = world.platform.calls("/cgi-bin/media/upload")
    assert query["type"] == "file"
    assert 'name="media"; filename="周报.txt"; filelength=9'.encode() in sent
    assert b"\r\n\r\nsome text\r\n--" in sent


async def test_a_failed_upload_is_typed(world: World, tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"0123456789")
    part = world.mp.render(Reply(kind="image", data={"path": str(file)}))[0]
    world.platform.answers["/cgi-bin/media/upload"] = [{"errcode": 45009, "errmsg": "reach max api daily quota limit"}]
    with pytest.raises(PlatformError) as caught:
        await world.mp.freeze(part, Target(users=(OPEN_ID,)), duplicate_check=False, key="k")
    assert (caught.value.errcode, caught.value.action) == (45009, Action.pause_account)
    for content in (b"tiny", b"x" * 10_485_761):
        file.write_bytes(content)
        with pytest.raises(Refused):
            await world.mp.freeze(part, Target(users=(OPEN_ID,)), duplicate_check=False, key="k")


def test_a_file_name_cannot_break_out_of_its_header() -> None:
    body, content_type = multipart("media", '坏"\r\nX: y\\.txt', b"12345678", "text/plain")
    head = body.split(b"\r\n\r\n", 1)[0].decode()
    assert 'filename="坏___X: y_.txt"' in head
    assert content_type.startswith("multipart/form-data; boundary=")


@pytest.mark.parametrize(
    ("errcode", "capability"), [(40003, "push"), (45015, "push"), (0, "push"), (48001, "pull"), (-1, "unknown")]
)
async def test_the_probe_of_an_official_account(world: World, errcode: int, capability: str) -> None:
    """48001 means pull; a refused openid means that the call itself is allowed."""
    world.platform.answers["/cgi-bin/message/custom/typing"] = [{"errcode": errcode, "errmsg": "x"}]
    assert await world.mp.probe() == capability


async def test_the_probe_gives_up_after_two_seconds_or_without_a_token(world: World) -> None:
    world.platform.answers["/cgi-bin/stable_token"] = [{"errcode": 40164, "errmsg": "invalid ip 203.0.113.7"}]
    assert await world.mp.probe() == "unknown"
    world.platform.answers["/cgi-bin/agent/get"] = [{"errcode": 0, "errmsg": "ok", "agentid": 1000002}]
    assert await world.wecom.probe() == "push"
    world.platform.answers["/cgi-bin/agent/get"] = [{"errcode": 60020, "errmsg": "x"}]
    assert await world.wecom.probe() == "unknown"


async def test_a_template_message_carries_its_handle(world: World) -> None:
    """template/send: client_msg_id from the row's key, so a repeat is recognized; msgid comes as a number."""
    world.platform.answers["/cgi-bin/message/template/send"] = [{"errcode": 0, "errmsg": "ok", "msgid": 200228332}]
    part = world.mp.render(Reply(kind="template", data={"template_id": "T1", "data": {"keyword1": "巧克力"}}))[0]
    target = Target(users=(OPEN_ID,))
    first = await world.mp.freeze(part, target, duplicate_check=True, key="row-7")
    assert first == await world.mp.freeze(part, target, duplicate_check=True, key="row-7")
    assert json.loads(first)["client_msg_id"].startswith("yz")
    assert (await world.mp.send("template", first, target=target)).platform_id == "200228332"
    assert world.mp.send_handle("template")
    assert not world.mp.send_handle("text")


async def test_a_card_update_uses_its_response_code(world: World) -> None:
    world.platform.answers["/cgi-bin/message/update_template_card"] = [{"errcode": 0, "errmsg": "ok"}]
    part = world.wecom.render(Reply(kind="card_update", data={"response_code": "RC1", "replace_name": "已同意"}))[0]
    target = Target(users=("zhangsan",))
    body = await world.wecom.freeze(part, target, duplicate_check=True, key="k")
    expected = {"userids": ["zhangsan"], "agentid": 1000002, "response_code": "RC1", "button": {"replace_name": "已同意"}}
    assert json.loads(body) == expected
    assert (await world.wecom.send(part.kind, body, target=target)).errcode == 0


async def test_a_robot_gets_text_markdown_and_files(world: World, tmp_path: Path) -> None:
    """Group robots by their settings id; the key in the URL is never shown."""
    url = f"{world.platform.base}/cgi-bin/webhook/send?key=robot-key-0123456789"
    world.wecom._robots["ops"] = url
    world.platform.answers["/cgi-bin/webhook/send"] = [{"errcode": 0, "errmsg": "ok"}]
    world.platform.answers["/cgi-bin/webhook/upload_media"] = [{"errcode": 0, "errmsg": "ok", "media_id": "WM1"}]
    target = Target(webhook="ops")
    file = tmp_path / "报表.xlsx"
    file.write_bytes(b"0123456789")
    sent = []
    for reply in (Reply(text="注意"), Reply(kind="file", data={"path": str(file)})):
        part = world.wecom.render(reply)[0]
        body = await world.wecom.freeze(part, target, duplicate_check=False, key="k")
        assert (await world.wecom.send(part.kind, body, target=target)).errcode == 0
        sent.append(json.loads(body))
    assert sent == [{"msgtype": "text", "text": {"content": "注意"}}, {"msgtype": "file", "file": {"media_id": "WM1"}}]
    assert {query["key"] for path, query, _ in world.platform.requests if "webhook" in path} == {"robot-key-0123456789"}
    with pytest.raises(Refused):
        await world.wecom.freeze(Part("text", {}, "x"), Target(webhook="other"), duplicate_check=False, key="k")
