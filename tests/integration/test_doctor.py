"""``yizhan doctor`` against the platform simulator and a real Valkey: what it finds and what it says to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from config.clock import Clock
from config.database import Database, open_database
from config.demo import demo_accounts, simulator_accounts
from config.schema import AdminListen, Settings
from gateway.account_file import SECRET_PLACEHOLDER
from gateway.account_state import record_capability, set_trouble
from gateway.channel import CallbackRejected, CallbackRequest
from gateway.cli import main
from gateway.doctor import examine
from gateway.doctor_report import Finding, Report
from gateway.health import HEALTH_PREFIX, database_id
from gateway.migrate import upgrade
from gateway.models import Inbound
from gateway.mp import crypto as mp_crypto
from gateway.queue import ALIVE_PREFIX
from gateway.redis_links import open_redis
from gateway.wecom import crypto as wecom_crypto
from scripts.simulator.accounts import parse_account
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World


class Bench:
    """One deployment under examination: settings, database, Valkey, simulated platforms."""

    def __init__(self, world: World, base: str, data_dir: Path, redis_url: str) -> None:
        self.world, self.base, self.data_dir, self.redis_url = world, base, data_dir, redis_url
        self.database: Database = open_database(f"sqlite:///{data_dir / 'yizhan.db'}")
        self.redis = open_redis(redis_url)

    def settings(self, public_url: str | None = None, **account: Any) -> Settings:
        """Settings whose first account is changed by ``account``."""
        accounts = demo_accounts(self.base)
        accounts[0] |= account
        http = {"host": "127.0.0.1", "port": 8080, "public_url": public_url}
        tenants = [{"id": "acme", "accounts": accounts}]
        return Settings.model_validate({"data_dir": self.data_dir, "http": http, "admin": {"port": 1}, "tenants": tenants})

    async def examine(self, settings: Settings | None = None, **options: Any) -> Report:
        """The report on ``wecom-main`` (or the ``accounts`` given)."""
        options = {"accounts": ["wecom-main"], **options}
        return await examine(settings or self.settings(), self.database, self.redis, Clock(), **options)


@pytest.fixture
async def bench(tmp_path: Path, valkey: str) -> AsyncIterator[Bench]:
    """A migrated database, an empty Valkey, the simulator with the demo's accounts."""
    upgrade(f"sqlite:///{tmp_path / 'yizhan.db'}")
    accounts = [parse_account(raw, "http://127.0.0.1:1") for raw in simulator_accounts("")]
    world = World({account.id: account for account in accounts}, Timekeeper(None), "", None)
    async with serving(world) as base:
        bench = Bench(world, base, tmp_path, valkey)
        yield bench
        await bench.redis.aclose()
        await bench.database.close()


def found(report: Report, check: str) -> Finding:
    """The one finding of this check."""
    (finding,) = [item for item in report.findings if item.check == check]
    return finding


@asynccontextmanager
async def site(handler: Any) -> AsyncIterator[str]:
    """A web server that answers every path with ``handler``; yields its address."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def our_callback(settings: Settings) -> Any:
    """The product's own URL check behind HTTP, as a running gateway with these settings answers."""

    async def handle(request: web.Request) -> web.Response:
        account = settings.account(request.path.rsplit("/", 1)[-1])
        query: Mapping[str, tuple[str, ...]] = {key: tuple(request.query.getall(key)) for key in request.query}
        if account is None:
            return web.Response(status=404, text=f"{HEALTH_PREFIX}: no such account\n")
        try:
            verify: Any = wecom_crypto.verify_url if account.platform == "wecom" else mp_crypto.verify_url
            return web.Response(body=verify(account, CallbackRequest("GET", query)), content_type="text/plain")
        except CallbackRejected as rejected:
            return web.Response(status=rejected.status, text=f"{HEALTH_PREFIX} {account.id}: {rejected.code}\n")

    return handle


async def test_a_good_account(bench: Bench) -> None:
    """Token, app and visible range are read; the callback is ours and has our keys, on both platforms."""
    settings = bench.settings()
    async with site(our_callback(settings)) as url:
        report = await bench.examine(bench.settings(url), accounts=["wecom-main", "mp-main"])
    mine = [item for item in report.findings if item.about in ("wecom-main", "mp-main")]
    assert {item.level for item in mine if item.check != "capability"} == {"ok"}
    assert [item.check for item in mine if item.about == "wecom-main"] == [
        "settings",
        "token",
        "readable",
        "range",
        "callback",
        "capability",
    ]
    assert "应用「驿站助手」读得到" in report.for_terminal()


async def test_the_gateway_of_another_deployment_is_not_ours(bench: Bench, tmp_path: Path) -> None:
    """What answers on the admin address must work on this very database, whatever state it is in."""
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere' / 'yizhan.db'}"
    await asyncio.to_thread(upgrade, elsewhere)
    other = open_database(elsewhere)
    ids = [await database.read(database_id) for database in (bench.database, other)]
    await other.close()
    assert len(set(ids)) == 2
    answers = [(ids[0], 200, "ok"), (ids[0], 503, "warn"), (ids[1], 200, "fail"), (ids[1], 503, "fail"), (None, 200, "ok")]
    for told, status, level in answers:
        body = {"ready": status == 200} | ({} if told is None else {"database_id": told})

        async def readyz(_request: web.Request, body: Any = body, status: int = status) -> web.Response:
            return web.json_response(body, status=status)

        async with site(readyz) as url:
            settings = bench.settings().model_copy(update={"admin": AdminListen(port=int(url.rsplit(":", 1)[1]))})
            finding = found(await bench.examine(settings), "gateway")
        assert finding.level == level, (told, status)
        assert ("另一套部署" in finding.text) == (told == ids[1])


async def test_untrusted_address(bench: Bench) -> None:
    """A token is given to any address; only reading the app shows 60020, and the fix names our address."""
    bench.world.faults.set({"fault": "ip_blocked", "account": "wecom-main", "path": "/cgi-bin/agent/get"})
    finding = found(await bench.examine(), "readable")
    assert finding.level == "fail"
    assert "60020" in finding.text
    assert finding.fix == "请把出口 IP 203.0.113.7 加到应用的「企业可信 IP」，约一分钟后生效。"


async def test_wrong_secret(bench: Bench) -> None:
    """The platform's refusal is told with its number and what to do; the secret itself is nowhere."""
    settings = bench.settings(secret="wrongsecretwrongsecret")
    report = await bench.examine(settings)
    finding = found(report, "token")
    assert (finding.level, finding.fix[:14]) == ("fail", "应用的 Secret 不对或")
    assert "40001" in finding.text
    assert "wrongsecret" not in report.for_terminal()


async def test_unreachable_platform(bench: Bench) -> None:
    """No answer at all: says which address, and looks at the network."""
    report = await bench.examine(bench.settings(api_base="http://127.0.0.1:1"))
    assert found(report, "token").text == "连不上平台 http://127.0.0.1:1（ClientConnectorError）"
    assert not [item for item in report.findings if item.check == "capability"]  # nobody knows whether it can push


async def test_placeholder(bench: Bench) -> None:
    """What the first file left open is named; the platform is not bothered with it."""
    report = await bench.examine(bench.settings(secret=SECRET_PLACEHOLDER))
    assert found(report, "settings").text == "secret 还是起步文件里的占位值"
    assert not [item for item in report.findings if item.check in ("token", "capability")]


async def test_cb_06_and_cb_19_what_the_loader_corrected_is_told(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """CB-06, CB-19: blanks around pasted values are removed and told; a short key is an error that names the field."""
    config = bench.data_dir / "yizhan.yaml"
    account = demo_accounts(bench.base)[0]
    written = {
        "data_dir": str(bench.data_dir),
        "redis_url": bench.redis_url,
        "tenants": [{"id": "acme", "accounts": [account | {"corp_id": f" {account['corp_id']} "}]}],
    }
    config.write_text(json.dumps(written))
    await _cli(["doctor", "--config", str(config)])
    assert "! 设置：corp_id：去掉了值两头的空白或看不见的字符" in capsys.readouterr().out
    written["tenants"] = [{"id": "acme", "accounts": [account | {"encoding_aes_key": "a" * 42}]}]
    config.write_text(json.dumps(written))
    assert await _cli(["doctor", "--config", str(config)]) == 2
    told = capsys.readouterr().err
    assert "账号 wecom-main：encoding_aes_key" in told
    assert "43" in told
    assert "a" * 42 not in told


async def test_cb_08_a_web_page_answers(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """CB-08: a proxy that sends the callback to the front end is recognized, and told in those words."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><html><body>欢迎</body></html>", content_type="text/html")

    async with site(page) as url:
        finding = found(await bench.examine(public_url=url), "callback")
    assert finding.level == "fail"
    assert "proxy sends the callback to a web page" in finding.text
    assert "127.0.0.1:8080" in finding.fix


async def test_other_answers_at_the_callback(bench: Bench) -> None:
    """Nobody there, somebody else, an old process, other keys: each has its own sentence."""
    finding = found(await bench.examine(public_url="http://127.0.0.1:1"), "callback")
    assert finding.text.startswith("回调地址访问不到：http://127.0.0.1:1/callback/wecom-main")

    async def other(_: web.Request) -> web.Response:
        return web.Response(status=502, text="bad gateway")

    async with site(other) as url:
        assert "应答的不是我们" in found(await bench.examine(public_url=url), "callback").text
    old = bench.settings(id="wecom-old")
    async with site(our_callback(old)) as url:
        assert found(await bench.examine(public_url=url), "callback").text == "运行中的服务不认识这个账号"
    changed = bench.settings(callback_token="OtherToken")
    async with site(our_callback(changed)) as url:
        assert "bad_signature" in found(await bench.examine(public_url=url), "callback").text
    assert found(await bench.examine(), "callback").level == "warn"


async def test_clock_skew(bench: Bench) -> None:
    """A platform whose Date is ten minutes ahead: our clock is behind, and callbacks would be refused."""

    async def late(request: web.Request) -> web.Response:
        return web.Response(text="{}", headers={"Date": "Fri, 01 Jan 2100 00:00:00 GMT"})

    async with site(late) as url:
        finding = found(await bench.examine(bench.settings(api_base=url)), "clock")
    assert finding.level == "fail"
    assert finding.text.startswith("这台机器的时钟慢了 ")


async def test_workers_messages_and_trouble(bench: Bench) -> None:
    """No worker, an old unanswered message, a known trouble and a pull-only account are all told."""
    report = await bench.examine()
    assert found(report, "worker").text == "没有活着的 worker：慢任务没有人做"
    assert found(report, "unanswered").level == "ok"
    await bench.redis.set(f"{ALIVE_PREFIX}w1", "16", ex=30)
    now = Clock().now_ms()
    row: dict[str, Any] = {
        "tenant_id": "acme",
        "account_id": "wecom-main",
        "conversation_id": "c",
        "user_id": "u",
        "kind": "text",
        "lane": "turn",
    }
    row |= {"key": "k", "status": "received", "sent_at_ms": now, "received_at_ms": now - 400_000, "deliveries": 1}
    row |= {"attempts": 0, "deaths": 0, "stop_requested": False}

    def write(connection: Any) -> None:
        connection.execute(Inbound.__table__.insert().values(**row))  # type: ignore[attr-defined]
        record_capability(connection, "mp-sub", "acme", "pull", now)
        set_trouble(connection, "mp-sub", "acme", "60020", now)

    await bench.database.write(write)
    report = await bench.examine(accounts=["mp-sub"])
    assert found(report, "worker").text == "worker 在运行（1 个进程）"
    assert found(report, "unanswered").text == "1 条消息没有回答，最早的等了 6 分钟（#1）"
    assert found(report, "capability").text.startswith("不能主动推送")
    assert found(report, "trouble").level == "fail"


async def test_nothing_there_yet(bench: Bench, tmp_path: Path) -> None:
    """Before the first start: no tables, no Redis; the doctor says so and does not fall over."""
    empty = open_database(f"sqlite:///{tmp_path / 'empty.db'}")
    redis = open_redis(f"unix://{tmp_path / 'none.sock'}?db=0")
    report = await examine(bench.settings(), empty, redis, Clock(), accounts=["wecom-main"])
    await empty.close()
    await redis.aclose()
    assert found(report, "database").text == "数据库还没有建立"
    assert found(report, "redis").level == "fail"
    assert found(report, "gateway").level == "fail"


def test_report_for_chat_is_short() -> None:
    """In a chat: the sentence, the problems with their fix (failures first), and how much is fine."""
    report = Report(
        (
            Finding("系统", "a", "ok", "好"),
            Finding("系统", "b", "warn", "慢", "等"),
            Finding("wecom-main", "c", "fail", "坏", "修"),
        )
    )
    assert report.for_chat().splitlines() == [
        "检查完毕：1 个问题，1 个提醒。",
        "✗ wecom-main：坏",
        "  处理：修",
        "! 系统：慢",
        "  处理：等",
        "其余 1 项正常。",
    ]
    assert Report((Finding("系统", "a", "ok", "好"),)).for_chat() == "检查完毕，没有发现问题。"


async def test_command_line(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit codes for scripts: 1 with a failure, 2 for an account that is not there; --json is one array."""
    config = bench.data_dir / "yizhan.yaml"
    written = {
        "data_dir": str(bench.data_dir),
        "redis_url": bench.redis_url,
        "tenants": [{"id": "acme", "accounts": demo_accounts(bench.base)}],
    }
    config.write_text(json.dumps(written))
    assert await _cli(["doctor", "--config", str(config), "--json", "wecom-main"]) == 1
    findings = json.loads(capsys.readouterr().out)
    assert {item["check"] for item in findings} >= {"database", "redis", "worker", "gateway", "token", "readable"}
    assert await _cli(["doctor", "--config", str(config), "nobody"]) == 2


async def _cli(arguments: list[str]) -> int:
    """The command in a thread of its own: it runs its own loop while the simulator runs in ours."""
    return await asyncio.to_thread(main, arguments)
