"""A simulator on loopback and a scripted gateway stub that uses wechatpy as the independent side."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from wechatpy.crypto import WeChatCrypto
from wechatpy.enterprise.crypto import WeChatCrypto as WorkCrypto
from wechatpy.utils import to_binary

from config.demo import simulator_accounts
from scripts.simulator.accounts import SimAccount, parse_account
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World

Answer = Callable[["Seen"], Awaitable[bytes | tuple[int, bytes]] | bytes | tuple[int, bytes]]


@dataclass
class Seen:
    """One callback the stub received, already opened by wechatpy."""

    account: SimAccount
    query: dict[str, str]
    body: bytes
    plaintext: str
    number: int


@dataclass
class Stub:
    """The gateway side: decrypts with wechatpy, answers what the test scripts."""

    accounts: dict[str, SimAccount]
    answer: Answer = lambda seen: b"success"
    seen: list[Seen] = field(default_factory=list)
    echo: Callable[[bytes], bytes] = lambda exact: exact

    async def handle(self, request: web.Request) -> web.StreamResponse:
        account = self.accounts[request.match_info["account"]]
        query = dict(request.query)
        if request.method == "GET":
            return web.Response(body=self.echo(self._echo(account, query)))
        body = await request.read()
        seen = Seen(account, query, body, self._open(account, query, body), len(self.seen) + 1)
        self.seen.append(seen)
        result = self.answer(seen)
        if isinstance(result, Awaitable):
            result = await result
        status, payload = result if isinstance(result, tuple) else (200, result)
        return web.Response(status=status, body=payload)

    def _open(self, account: SimAccount, query: dict[str, str], body: bytes) -> str:
        if account.mode == "plain":
            return body.decode()
        return str(crypto(account).decrypt_message(body.decode(), query["msg_signature"], query["timestamp"], query["nonce"]))

    def _echo(self, account: SimAccount, query: dict[str, str]) -> bytes:
        if not account.wecom:
            return query["echostr"].encode()
        work = crypto(account)
        return to_binary(work.check_signature(query["msg_signature"], query["timestamp"], query["nonce"], query["echostr"]))


def crypto(account: SimAccount) -> Any:
    """wechatpy's own cryptography for the account."""
    kind = WorkCrypto if account.wecom else WeChatCrypto
    return kind(account.callback_token, account.aes_key, account.app_id)


def text_reply(seen: Seen, content: str, user: str | None = None) -> bytes:
    """An encrypted passive text reply, sealed by wechatpy."""
    return reply(seen, f"<MsgType><![CDATA[text]]></MsgType><Content><![CDATA[{content}]]></Content>", user)


def reply(seen: Seen, inner: str, user: str | None = None) -> bytes:
    """An encrypted passive reply with the given elements."""
    to_user = user or seen.plaintext.split("<FromUserName><![CDATA[")[1].split("]]>")[0]
    xml = f"<xml><ToUserName><![CDATA[{to_user}]]></ToUserName><CreateTime>1</CreateTime>{inner}</xml>"
    if seen.account.mode == "plain":
        return xml.encode()
    return str(crypto(seen.account).encrypt_message(xml, seen.query["nonce"], seen.query["timestamp"])).encode()


@dataclass
class Sim:
    """A running simulator with its stub and an HTTP client that carries the start-up token."""

    world: World
    stub: Stub
    base: str
    http: aiohttp.ClientSession

    async def post(self, path: str, /, **body: Any) -> dict[str, Any]:
        """POST JSON to the control API; fails the test on a refusal."""
        async with self.http.post(f"{self.base}/_sim/{path}", json=body) as answer:
            data: dict[str, Any] = await answer.json()
            assert answer.status == 200, data
            return data

    async def get(self, path: str, /, **query: Any) -> Any:
        """GET JSON from the control API."""
        async with self.http.get(f"{self.base}/_sim/{path}", params=query) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def api(self, path: str, body: Any = None, /, **query: Any) -> dict[str, Any]:
        """Call the platforms' API: POST when there is a body, else GET."""
        method = "GET" if body is None else "POST"
        async with self.http.request(method, f"{self.base}/cgi-bin/{path}", json=body, params=query) as answer:
            assert answer.status == 200
            data: dict[str, Any] = await answer.json(content_type=None)
            return data

    async def token(self, account: str = "wecom-main") -> str:
        """A fresh access_token of the account."""
        known = self.world.accounts[account]
        if known.wecom:
            return str((await self.api("gettoken", corpid=known.app_id, corpsecret=known.secret))["access_token"])
        body = {"grant_type": "client_credential", "appid": known.app_id, "secret": known.secret}
        return str((await self.api("stable_token", body))["access_token"])


@pytest.fixture
def start_token() -> str:
    """The start-up token of the simulator under test."""
    return "start-up-token"


@pytest.fixture
async def sim(start_token: str, tmp_path: Any) -> AsyncIterator[Sim]:
    """A simulator whose platform hangs up after 0.4 s, with the demo accounts and two more modes."""
    listener = socket.create_server(("127.0.0.1", 0))
    gateway = f"http://127.0.0.1:{listener.getsockname()[1]}"
    raw = [{**item, "menu": None} for item in simulator_accounts("")]
    raw.append({**raw[1], "id": "mp-compat", "mode": "compat"})
    raw.append({**raw[1], "id": "mp-plain", "mode": "plain", "app_id": "wxaaaaaaaaaaaaaaaa"})
    raw.append({**raw[0], "id": "wecom-two", "agent_id": 1000003, "secret": "other"})
    accounts = {item["id"]: parse_account(item, gateway) for item in raw}
    stub = Stub(accounts)
    app = web.Application()
    app.router.add_route("*", "/callback/{account}", stub.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    world = World(accounts, Timekeeper(tmp_path / "clock"), start_token, callback_timeout_s=0.4)
    async with serving(world) as base, aiohttp.ClientSession(headers={"X-Sim-Token": start_token}) as http:
        yield Sim(world, stub, base, http)
    await runner.cleanup()
    await asyncio.sleep(0)
