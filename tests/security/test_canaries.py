"""Every client failure is forced on a whole gateway, then everything operators can see is searched for canaries (N-22)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import io
import json
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from pydantic import SecretStr

from config.logging import setup_logging
from config.schema import HttpTool, ModelRoute, Settings, Tenant
from gateway import cli_trace
from tests.cases.scenes import SEND, push
from tests.fakes.model_server import broken, call, say
from tests.stack import Stack, free_ports, running_stack

BODY = "CanaryBodyZq81"
MODEL_KEY = "sk-CanaryModelKey77"
PROXY_PASSWORD = "CanaryProxyPw55"
TOOL_HEADER = "CanaryToolHeader33"
ROBOT_KEY = "CanaryRobotKey44"
MEMBER = ("wecom-main", "zhangsan")
SUB = ("mp-sub", "oDemoSubFollower000000000002")
_TEXT_COLUMNS = re.compile(r"^(err|error|trouble|note|reason|route|routes|outcome|hint|code|park|progress)")


class Echo:
    """A rude HTTP server: whatever it is asked, its failing answer repeats the request's headers, URL and body."""

    status = 500

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The request, as an error page."""
        told = f"<html>{request.url} {dict(request.headers)} {(await request.read()).decode(errors='replace')}</html>"
        return web.Response(status=self.status, text=told, content_type="text/html")


@contextlib.asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Echo, str]]:
    """The server and its base URL."""
    echo, app = Echo(), web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{rest:.*}", echo.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield echo, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@dataclass
class Watched:
    """A running stack whose log is kept."""

    stack: Stack
    log: io.StringIO
    echo: Echo


def _broken_settings(settings: Settings, base: str) -> Settings:
    """The demo's settings with more ways to fail: rude routes first, an account behind a closed proxy, a rude tool."""
    (closed,) = free_ports(1)
    tenant = settings.tenants[0]
    wecom = next(account for account in tenant.accounts if account.id == "wecom-main")
    proxied = wecom.model_copy(
        update={"id": "wecom-proxy", "proxy_url": f"http://user:{PROXY_PASSWORD}@127.0.0.1:{closed}", "api_base": None}
    )
    tool = HttpTool.model_validate(
        {
            "name": "rude",
            "description": "查库存",
            "url": f"{base}/stock",
            "headers": {"X-Key": TOOL_HEADER},
            "summary_template": "{x}",
        }
    )
    tools = tenant.tools.model_copy(update={"http": (*tenant.tools.http, tool)})
    rude = ModelRoute(name="rude", base_url=f"{base}/v1", model="m", api_key=SecretStr(MODEL_KEY), local=True)
    gone = rude.model_copy(update={"name": "gone", "base_url": f"http://127.0.0.1:{closed}/v1"})
    changed: Tenant = tenant.model_copy(
        update={
            "accounts": (*tenant.accounts, proxied),
            "tools": tools,
            "alert_webhook": SecretStr(f"{base}/cgi-bin/webhook/send?key={ROBOT_KEY}"),
        }
    )
    return settings.model_copy(update={"tenants": (changed,), "models": (rude, gone, *settings.models)})


@pytest.fixture
async def watched(tmp_path: Path, valkey: str) -> AsyncIterator[Watched]:
    """A gateway that logs everything at DEBUG into memory, surrounded by trouble."""
    root, stream = logging.getLogger(), io.StringIO()
    before = (root.handlers[:], root.level)
    try:
        async with echoing() as (echo, base):
            setup_logging("DEBUG", stream)
            async with running_stack(tmp_path, valkey, change=lambda settings: _broken_settings(settings, base)) as stack:
                yield Watched(stack, stream, echo)
    finally:
        root.handlers[:], root.level = before[0], before[1]


SEND_FAULTS: list[dict[str, Any]] = [
    {"name": "connection_refused"},
    {"name": "accept_then_502"},
    {"name": "accept_then_close"},
    {"name": "http_500"},
    {"name": "html_200"},
    {"name": "empty_200"},
    {"name": "truncated_json"},
    {"name": "busy"},
    {"name": "errcode", "value": 40058},
]
"""Faults after which the account goes on."""
HARSH: dict[str, tuple[str, dict[str, Any]]] = {
    "mp-main": ("oDemoMainFollower00000000001", {"name": "quota"}),
    "wecom-main": ("lisi", {"name": "ip_blocked"}),
}
"""Faults that stop the account."""


async def _fail_sends(stack: Stack) -> None:
    """Each fault meets one push to one person; every push is tried at least once."""
    for number, fault in enumerate(SEND_FAULTS):
        await stack.post("faults", **fault, account="wecom-main", path="message/send", count=2)
        told = await push(stack, "wecom-main", [f"member{number}"], f"{BODY} {number}", f"canary{number}")
        await stack.until(lambda push_id=told["id"]: _failed(stack, push_id))  # type: ignore[misc]
        await stack.post("faults", clear=True)


async def _stop_accounts(stack: Stack) -> None:
    """The last send of each account: its quota is used up, its address is not allowed."""
    for account, (user, fault) in HARSH.items():
        await stack.post("faults", **fault, account=account, path=SEND[account])
        told = await push(stack, account, [user], BODY, f"harsh-{account}")
        await stack.until(lambda push_id=told["id"]: _failed(stack, push_id))  # type: ignore[misc]


async def _failed(stack: Stack, push_id: str) -> bool:
    rows = await stack.rows("SELECT cause_id, errmsg, errcode FROM outbox_message")
    return any(row["errmsg"] or row["errcode"] for row in rows if row["cause_id"] == push_id)


async def _fail_tokens(stack: Stack) -> None:
    """A secret that became wrong, a token endpoint that answers nonsense, a proxy that is away."""
    real = stack.world.accounts["mp-main"]
    stack.world.accounts["mp-main"] = dataclasses.replace(real, secret="another secret")
    await stack.post("faults", name="token_revoked", account="mp-main")
    await push(stack, "mp-main", ["oDemoMainFollower00000000001"], BODY, "wrong-secret")
    await push(stack, "wecom-proxy", ["zhangsan"], BODY, "bad-proxy")

    async def tried() -> bool:
        rows = await stack.rows("SELECT account_id, attempts FROM outbox_message WHERE cause = 'push'")
        return {row["account_id"] for row in rows if row["attempts"]} >= {"mp-main", "wecom-proxy"}

    await stack.until(tried)
    stack.world.accounts["mp-main"] = real
    for name in ("truncated_json", "http_500"):
        await stack.post("faults", name=name, account="wecom-main", path="gettoken", count=3)
        await stack.post("faults", name="token_revoked", account="wecom-main")
        await push(stack, "wecom-main", ["zhangsan"], BODY, f"token-{name}")
        await stack.seen(*MEMBER, BODY, 60)
        await stack.post("faults", clear=True)


async def _fail_models_and_tools(watched: Watched) -> None:
    """Routes that echo, refuse, are away or break off; a tool whose system echoes its secret header; refused requests."""
    stack = watched.stack
    stack.model.then(call("rude", {}), say("没查到"))
    await stack.say(*MEMBER, f"{BODY} 查库存")
    stack.model.then(broken("error_500_html"), broken("cut_stream"))
    await stack.say(*MEMBER, f"{BODY} 断了")
    watched.echo.status = 401
    await stack.say(*SUB, f"{BODY} 被拒")
    watched.echo.status = 500


async def _strangers(stack: Stack) -> None:
    """Callbacks and API calls that are not genuine, full of canaries."""
    base, admin = f"http://127.0.0.1:{stack.settings.http.port}", f"http://127.0.0.1:{stack.settings.admin.port}"
    query = f"msg_signature={BODY}&timestamp=1&nonce={BODY}&echostr={BODY}"
    for account in ("wecom-main", "mp-main"):
        async with stack.http.get(f"{base}/callback/{account}?{query}") as response:
            assert BODY not in await response.text()
        async with stack.http.post(
            f"{base}/callback/{account}?{query}", data=f"<xml><Encrypt>{BODY}</Encrypt></xml>"
        ) as response:
            assert BODY not in await response.text()
    headers = {"Authorization": f"Bearer yzk_{BODY}"}
    async with stack.http.post(f"{admin}/api/v1/push", data=f'{{"{BODY}', headers=headers) as response:
        assert BODY not in await response.text()


def _secrets(stack: Stack) -> dict[str, str]:
    """Everything that must not be seen, by what it is."""
    found = {"model key": MODEL_KEY, "proxy password": PROXY_PASSWORD, "tool header": TOOL_HEADER, "robot key": ROBOT_KEY}
    found["body"] = BODY
    for account in stack.world.accounts.values():
        found[f"{account.id} secret"] = account.secret
        found[f"{account.id} callback token"] = account.callback_token
        found[f"{account.id} aes key"] = account.aes_key or "-"
    for number, token in enumerate(stack.world.tokens._issued):
        found[f"access token {number}"] = token
    return found


async def _columns(stack: Stack) -> list[str]:
    """Every value of every column that holds an error, a reason, a route or a note."""
    told: list[str] = []
    for table in [row["name"] for row in await stack.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]:
        for row in await stack.rows(f'SELECT * FROM "{table}"'):  # noqa: S608 -- names of our own tables
            told += [f"{table}.{name}: {value}" for name, value in row.items() if value and _TEXT_COLUMNS.match(name)]
    return told


def _trace(stack: Stack, folder: Path, what: str, capsys: pytest.CaptureFixture[str]) -> str:
    """``yizhan trace`` as an operator runs it."""
    path = folder / "trace.yaml"
    path.write_text(yaml.safe_dump({"data_dir": str(stack.settings.data_dir)}), "utf-8")
    capsys.readouterr()
    assert cli_trace.run(argparse.Namespace(config=path, what=what, limit=200, bodies=False)) == 0
    return capsys.readouterr().out


async def test_n_22_no_canary_is_ever_seen(watched: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """N-22: wrong secrets, refused tokens, 5xx pages, cut and empty answers, closed connections and proxies, rude models,
    tools and strangers: no token, secret, key or message body in logs, error columns, traces or metrics."""
    stack = watched.stack
    await _fail_sends(stack)
    await _fail_tokens(stack)
    await _fail_models_and_tools(watched)
    await _strangers(stack)
    await _stop_accounts(stack)
    async with stack.http.get(f"http://127.0.0.1:{stack.settings.admin.port}/metrics") as response:
        metrics = await response.text()
    users = ("zhangsan", "member0", "member8", "oDemoMainFollower00000000001", SUB[1])
    traces = [await asyncio.to_thread(_trace, stack, tmp_path, user, capsys) for user in users]
    columns, log = await _columns(stack), watched.log.getvalue()
    assert any("outbox_message.errmsg" in column for column in columns), "the failures left their trace"
    lines = [json.loads(line) for line in log.splitlines()]
    actions = {line["action"] for line in lines}
    assert {"outbox.retry", "callback.rejected", "account.trouble"} & actions, sorted(actions)
    seen: dict[str, Any] = {"log": log, "columns": "\n".join(columns), "traces": "\n".join(traces), "metrics": metrics}
    leaks = [
        f"{name} in {place}: …{text[max(0, text.find(secret) - 160) : text.find(secret) + 40]}…"
        for name, secret in _secrets(stack).items()
        for place, text in seen.items()
        if secret in text
    ]
    assert leaks == []
