"""Bench of the token store: 8 processes send while tokens expire and a platform that invalidates at once counts fetches.

It holds when each expiry costs one fetch over all processes and no push fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from redis.asyncio import Redis

from config.clock import Clock
from config.schema import Settings, Tenant, WecomAccount
from gateway.channels import open_channels, open_session
from gateway.transport import json_bytes
from gateway.wecom.client import WecomClient
from scripts.bench.stores import url_of, valkey

_LIFE_S = 7200
_ACCOUNT = "bench"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; the last line printed is one JSON object. Exit code 1 when it does not hold."""
    parser = argparse.ArgumentParser(prog="bench tokens", description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--sends", type=int, default=50, help="sends of each process after each expiry")
    parser.add_argument("--expiries", type=int, default=20)
    parser.add_argument("--revocations", type=int, default=5, help="tokens revoked without having expired")
    parser.add_argument("--child", nargs=4, metavar=("BASE", "REDIS", "CLOCK", "ROUNDS"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        base, redis_url, clock_file, rounds = options.child
        return asyncio.run(_child(base, redis_url, Path(clock_file), int(rounds), options.sends))
    result = asyncio.run(_parent(options))
    print(json.dumps(result))
    return 0 if result["ok"] else 1


class _Platform:
    """gettoken gives a new token and kills the old one at once; message/send accepts only the newest, unexpired one."""

    def __init__(self, clock: Clock, processes: int) -> None:
        self.clock = clock
        self.processes = processes
        self.fetches = 0
        self.refused = 0
        self.accepted = 0
        self.token = ""
        self.expires_ms = 0
        self.arrived = 0
        self.everyone = asyncio.Event()
        self.go = asyncio.Event()

    async def gettoken(self, _request: web.Request) -> web.Response:
        self.fetches += 1
        self.token = f"token{self.fetches:06d}"
        self.expires_ms = self.clock.now_ms() + _LIFE_S * 1000
        return web.json_response({"errcode": 0, "errmsg": "ok", "access_token": self.token, "expires_in": _LIFE_S})

    async def send(self, request: web.Request) -> web.Response:
        given = request.query.get("access_token")
        if given == self.token and self.clock.now_ms() < self.expires_ms:
            self.accepted += 1
            return web.json_response({"errcode": 0, "errmsg": "ok", "msgid": str(self.accepted)})
        self.refused += 1
        return web.json_response({"errcode": 42001 if given == self.token else 40014, "errmsg": "invalid access_token"})

    async def barrier(self, _request: web.Request) -> web.Response:
        """Answers when every process has arrived and the next round is open."""
        go = self.go
        self.arrived += 1
        if self.arrived == self.processes:
            self.everyone.set()
        await go.wait()
        return web.json_response({})

    async def open_round(self) -> None:
        """Wait for every process, then let them all go."""
        await self.everyone.wait()

    def release(self) -> None:
        """Start the next round."""
        self.arrived = 0
        self.everyone.clear()
        go, self.go = self.go, asyncio.Event()
        go.set()


async def _parent(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="yzb") as name, valkey(Path(name)):
        return await _bench(options, Path(name))


async def _bench(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    children: list[asyncio.subprocess.Process] = []
    runner: web.AppRunner | None = None
    try:
        clock_file = folder / "clock"
        clock_file.write_text("0")
        clock = Clock(clock_file)
        platform = _Platform(clock, options.processes)
        app = web.Application()
        app.router.add_get("/cgi-bin/gettoken", platform.gettoken)
        app.router.add_post("/cgi-bin/message/send", platform.send)
        app.router.add_get("/barrier", platform.barrier)
        runner = web.AppRunner(app, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        rounds = 1 + options.expiries + options.revocations
        command = [sys.executable, "-m", "scripts.bench.tokens", "--sends", str(options.sends)]
        command += ["--child", base, url_of(folder), str(clock_file), str(rounds)]
        for _ in range(options.processes):
            children.append(await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE))
        return await _rounds(options, platform, clock_file, children)
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
        if runner is not None:
            await runner.cleanup()


async def _rounds(
    options: argparse.Namespace, platform: _Platform, clock_file: Path, children: list[asyncio.subprocess.Process]
) -> dict[str, Any]:
    offset_ms, per_round = 0, []
    started = time.monotonic()
    for number in range(1 + options.expiries + options.revocations):
        await platform.open_round()
        if 1 <= number <= options.expiries:
            offset_ms += (_LIFE_S + 100) * 1000
            _move_clock(clock_file, offset_ms)
            await asyncio.sleep(0.05)  # every process rereads the clock file within 20 ms
        elif number > options.expiries:
            platform.token = "revoked"  # noqa: S105 - a made-up value
        before = platform.fetches
        platform.release()
        await platform.everyone.wait()
        per_round.append(platform.fetches - before)
    platform.release()
    outputs = [await child.communicate() for child in children]
    failed = sum(int(out.decode().strip() or options.sends) for out, _ in outputs)
    expected = options.processes * options.sends * len(per_round)
    return {
        "bench": "tokens",
        "processes": options.processes,
        "rounds": len(per_round),
        "sends": expected,
        "accepted": platform.accepted,
        "failed_pushes": failed,
        "refused_then_retried": platform.refused,
        "fetches": platform.fetches,
        "fetches_per_round_max": max(per_round),
        "seconds": round(time.monotonic() - started, 2),
        "ok": failed == 0 and platform.accepted == expected and all(count == 1 for count in per_round),
    }


async def _child(base: str, redis_url: str, clock_file: Path, rounds: int, sends: int) -> int:
    account = WecomAccount(
        id=_ACCOUNT,
        platform="wecom",
        corp_id="ww0123456789abcdef",
        agent_id=1000002,
        secret="bench-secret",  # noqa: S106 - made up
        callback_token="bench",  # noqa: S106 - made up
        encoding_aes_key="a" * 43,
        api_base=base,
    )
    settings = Settings(tenants=(Tenant(accounts=(account,)),))
    failed = 0
    async with open_session() as session, Redis.from_url(redis_url) as redis:
        client = open_channels(settings, session, redis, Clock(clock_file)).clients[_ACCOUNT]
        if not isinstance(client, WecomClient):
            return 1
        for number in range(rounds + 1):
            async with session.get(f"{base}/barrier", timeout=aiohttp.ClientTimeout(total=300)) as response:
                await response.read()
            if number == rounds:
                break
            bodies = [json_bytes({"touser": "u", "msgtype": "text", "text": {"content": f"{number}/{i}"}}) for i in range(sends)]
            outcomes = await asyncio.gather(*(client.send_message(body) for body in bodies))
            failed += sum(outcome.errcode != 0 for outcome in outcomes)
    print(failed)
    return 0


def _move_clock(clock_file: Path, offset_ms: int) -> None:
    clock_file.write_text(str(offset_ms))


if __name__ == "__main__":
    sys.exit(main())
