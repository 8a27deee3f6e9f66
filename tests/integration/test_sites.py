"""The two sites over real HTTP: what strangers get, what operators see, how a process ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from config.clock import Clock
from config.columns import table_of
from config.database import open_database
from config.errors import SettingsError
from config.logging import log
from config.schema import Settings
from config.settings import demo_settings
from gateway import worker
from gateway.app import serve
from gateway.migrate import upgrade
from gateway.models import Job
from gateway.routes import BODY_LIMIT
from tests.integration.jobs.steps import until
from tests.stack import free_ports


@dataclass
class Site:
    """One gateway in this loop."""

    settings: Settings
    stop: asyncio.Event
    task: asyncio.Task[None]
    http: aiohttp.ClientSession

    @property
    def public(self) -> str:
        return f"http://127.0.0.1:{self.settings.http.port}"

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self.settings.admin.port}"

    async def raw(self, data: bytes, *, half_close: bool = False) -> bytes:
        """Send bytes, return everything that comes back until the other side closes; empty when it just closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.settings.http.port)
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        if half_close:
            writer.write_eof()
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return answer


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def start_site(folder: Path, redis_url: str) -> Site:
    ports = free_ports(3)
    verify = folder / "verify"
    verify.mkdir(exist_ok=True)
    (verify / "WW_verify_abc123.txt").write_bytes(b"abc123\r\n")
    (verify / "secret.txt").write_text("no")
    more = {"redis_url": redis_url, "verify_dir": verify}
    settings = demo_settings(folder / "data", sim_port=ports[2], http_port=ports[0], admin_port=ports[1], **more)
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    stop = asyncio.Event()
    site = Site(settings, stop, asyncio.create_task(serve(settings, stop)), aiohttp.ClientSession())
    end = time.monotonic() + 20
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            async with site.http.get(f"{site.admin}/readyz") as response:
                if response.status == 200:
                    return site
        assert not site.task.done(), site.task
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def end_site(site: Site) -> None:
    site.stop.set()
    await asyncio.wait_for(site.task, 10)
    await site.http.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory, valkey_socket: Path) -> AsyncIterator[Site]:
    started = await start_site(tmp_path_factory.mktemp("site"), f"unix://{valkey_socket}?db=3")
    yield started
    await end_site(started)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
@pytest.mark.parametrize("account", ["wecom-main", "mp-main", "nobody"])
async def test_cb_12_visitors_get_a_cheap_4xx_in_plain_text(site: Site, method: str, account: str) -> None:
    """CB-12: a callback URL without parameters answers 4xx text, never HTML; other methods too."""
    async with site.http.request(method, f"{site.public}/callback/{account}", headers={"Accept": "text/html"}) as response:
        assert 400 <= response.status < 500
        assert response.content_type == "text/plain"
        assert b"<" not in await response.read()


@pytest.mark.parametrize(
    "path", ["/", "/admin", "/wecom/callback", "/callback/", "/callback/a/b", "/metrics", "/readyz", "/api/v1/push"]
)
async def test_n_23_the_public_site_has_nothing_of_the_admin_site(site: Site, path: str) -> None:
    """N-23: readiness, metrics and the API are on the admin address only."""
    async with site.http.get(site.public + path) as response:
        assert response.status == 404
        assert response.content_type == "text/plain"


async def test_the_body_limit_holds_while_reading(site: Site) -> None:
    """A declared or a streamed body over 256 KiB is a 413; the rest is not read."""
    head = b"POST /callback/wecom-main?msg_signature=a&timestamp=1&nonce=2 HTTP/1.1\r\nHost: x\r\n"
    declared = await site.raw(head + b"Content-Length: 99999999\r\n\r\n")
    assert declared.startswith(b"HTTP/1.1 413 ")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 16_384

    with contextlib.suppress(aiohttp.ClientError):
        async with site.http.post(
            f"{site.public}/callback/wecom-main?msg_signature=a&timestamp=1&nonce=2", data=endless()
        ) as response:
            assert response.status == 413
    just_fits = head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % BODY_LIMIT + b"x" * BODY_LIMIT
    assert (await site.raw(just_fits)).split()[1] in (b"400", b"403", b"415")


async def test_a_slow_body_is_given_up(site: Site) -> None:
    """A client that never finishes its body gets a 408 within the platforms' five seconds."""
    started = time.monotonic()
    answer = await site.raw(b"POST /callback/wecom-main HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n<xml>")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - started < 6


async def test_n_01_what_cannot_be_stored_is_not_answered(
    tmp_path: Path, valkey_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-01: when the handler says ``close`` the connection is dropped without a byte, so the platform delivers again."""
    from gateway.callback import CallbackHandler
    from gateway.channel import CallbackReply, CallbackRequest

    async def nothing(_self: CallbackHandler, _account: str, _request: CallbackRequest) -> CallbackReply:
        return CallbackReply(200, b"never", close=True)

    monkeypatch.setattr(CallbackHandler, "handle", nothing)
    second = await start_site(tmp_path, f"unix://{valkey_socket}?db=4")
    try:
        answer = await second.raw(b"POST /callback/wecom-main HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
        assert answer == b""
    finally:
        await end_site(second)


async def test_domain_verification_files_are_served_byte_exact(site: Site) -> None:
    async with site.http.get(f"{site.public}/WW_verify_abc123.txt") as response:
        assert response.status == 200
        assert await response.read() == b"abc123\r\n"
        assert response.content_type == "text/plain"
    for path in ("/WW_verify_missing.txt", "/secret.txt", "/WW_verify_..%2fsecret.txt", "/MP_verify_%2e%2e.txt"):
        async with site.http.get(site.public + path) as response:
            assert response.status == 404


async def test_health_readiness_and_metrics(site: Site) -> None:
    for base in (site.public, site.admin):
        async with site.http.get(f"{base}/healthz") as response:
            assert (response.status, await response.text()) == (200, "yizhan ok\n")
    async with site.http.get(f"{site.admin}/readyz") as response:
        told = await response.json()
    assert len(told.pop("database_id")) == 12
    assert told == {"ready": True, "redis": "ok", "database": "ok", "schema": "ok"}
    async with site.http.get(f"{site.public}/callback/wecom-main"):
        pass
    async with site.http.get(f"{site.admin}/metrics") as response:
        text = await response.text()
    assert 'yizhan_callbacks_total{outcome="rejected"}' in text
    assert 'yizhan_up{part="database"} 1.0' in text
    assert 'yizhan_queue_depth{queue="turn"} 0.0' in text
    assert "yizhan_acknowledge_seconds_count" in text
    for account in ("wecom-main", "mp-main", "mp-sub", "zhangsan"):
        assert account not in text


async def test_jobs_of_the_workers_are_counted(site: Site) -> None:
    """Jobs end in other processes; the gateway's metrics tell of them all the same, and of the last hour only."""
    database = open_database(site.settings.sqlalchemy_url)
    now = Clock().now_ms()
    base: dict[str, Any] = {"tenant_id": "t", "account_id": "a", "conversation_id": "c", "user_id": "u"}
    base |= {"queue": "task", "name": "doctor"}
    base |= {"attempts": 0, "deaths": 0, "cancel_requested": False, "fence": 0}
    jobs = [{**base, "id": f"j{age}{status}", "status": status, "created_at_ms": now - age} for age, status in _JOBS]
    try:
        await database.write(lambda c: c.execute(table_of(Job).insert(), jobs))
    finally:
        await database.close()
    async with site.http.get(f"{site.admin}/metrics") as response:
        text = await response.text()
    assert 'yizhan_jobs_last_hour{state="done"} 2.0' in text
    assert 'yizhan_jobs_last_hour{state="dead"} 1.0' in text


async def test_what_workers_count_is_told_by_the_gateway(site: Site) -> None:
    """A turn that ends badly in a worker shows in the gateway's metrics, once the worker ended at the latest."""
    stop = asyncio.Event()
    working = asyncio.create_task(worker.work(site.settings, stop))
    logger = logging.getLogger("tests")
    await until(lambda: worker._runtime is not None and worker._runtime._services.settings is site.settings)
    for _ in range(3):
        log(logger, "turn.failed", code="only_in_this_test")
    log(logger, "redis.away")
    stop.set()
    await working
    async with site.http.get(f"{site.admin}/metrics") as response:
        text = await response.text()
    assert 'yizhan_workers_turn_failures_total{code="only_in_this_test"} 3.0' in text
    assert "yizhan_workers_redis_away_total 1.0" in text


_JOBS = ((1, "done"), (2, "done"), (3, "dead"), (4_000_000, "dead"))


async def test_an_unreachable_platform_never_makes_it_unready(site: Site) -> None:
    """The simulator's port of this gateway is closed: every platform call fails, and it is ready all the same."""
    async with site.http.get(f"{site.admin}/readyz") as response:
        assert response.status == 200


async def test_a_taken_port_is_named_with_its_setting(site: Site, tmp_path: Path, valkey_socket: Path) -> None:
    ports, taken = free_ports(2), site.settings.http.port
    more = {"redis_url": f"unix://{valkey_socket}?db=4"}
    settings = demo_settings(tmp_path / "second", sim_port=ports[0], http_port=taken, admin_port=ports[1], **more)
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    with pytest.raises(SettingsError, match=f"http.port：端口 {site.settings.http.port} 已被别的程序占用"):
        await serve(settings, asyncio.Event())


async def test_a_stopping_gateway_refuses_and_ends_in_time(tmp_path: Path, valkey_socket: Path) -> None:
    stopping = await start_site(tmp_path, f"unix://{valkey_socket}?db=4")
    started = time.monotonic()
    await end_site(stopping)
    assert time.monotonic() - started < 9
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", stopping.settings.http.port)


async def test_n_22_nothing_secret_in_logs_or_metrics(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """N-22: a callback full of canaries leaves none of them in logs or metrics, nor does a failing platform."""
    caplog.set_level(logging.DEBUG)
    canary = "canary0123456789"
    query = f"msg_signature={canary}&timestamp=1&nonce={canary}&echostr={canary}"
    async with site.http.get(f"{site.public}/callback/wecom-main?{query}") as response:
        assert response.status in (400, 403)
        assert canary not in await response.text()
    body = f"<xml><Encrypt>{canary}</Encrypt><Content>{canary}</Content></xml>"
    async with site.http.post(
        f"{site.public}/callback/mp-main?{query}", data=body, headers={"Content-Type": "text/xml"}
    ) as response:
        assert canary not in await response.text()
    async with site.http.get(f"{site.admin}/metrics") as response:
        assert canary not in await response.text()
    from config.logging import JsonFormatter

    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert lines
    assert all(json.loads(line)["action"] for line in lines)
    secrets = [account.callback_token for tenant in site.settings.tenants for account in tenant.accounts]
    assert not [line for line in lines if canary in line or any(secret in line for secret in secrets)]
