"""The floor: bare aiohttp that verifies, decrypts, parses and answers ``success``; what every callback costs at least."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from aiohttp import web

from scripts.bench.envelopes import AES_KEY, APP_ID, TOKEN, Sealer
from scripts.bench.load import Result, send_all
from scripts.bench.processes import Running, answers, cpu_s, free_port, start, wait_until
from scripts.simulator.crypto import Box, same, sign


def app() -> web.Application:
    """The bare application; nothing is stored."""
    box = Box(AES_KEY, APP_ID)

    async def callback(request: web.Request) -> web.Response:
        query = request.query
        encrypted = ElementTree.fromstring(await request.read()).findtext("Encrypt") or ""  # noqa: S314 -- our own envelopes
        if not same(sign(TOKEN, query["timestamp"], query["nonce"], encrypted), query["msg_signature"]):
            return web.Response(status=403)
        message = ElementTree.fromstring(box.decrypt(encrypted))  # noqa: S314
        if message.findtext("FromUserName") is None:
            return web.Response(status=400)
        return web.Response(text="success")

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    application = web.Application()
    application.router.add_post("/callback/{account}", callback)
    application.router.add_get("/healthz", health)
    return application


def start_floor(folder: Path) -> tuple[Running, int]:
    """Start the floor as a process and wait for it; returns it and its port."""
    port = free_port()
    running = start(f"floor-{port}", [sys.executable, "-m", "scripts.bench.floor", "--serve", str(port)], folder)
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), running, "the floor", 15)
    return running, port


async def measure_floor(folder: Path, requests: int) -> tuple[float, Result]:
    """Callbacks per CPU second of the floor, and the load's own result."""
    running, port = start_floor(folder)
    try:
        sealer = Sealer(port)
        await send_all([sealer.view(number, f"oWarm{number}") for number in range(200)], [port])
        ready = [sealer.view(number, f"oUser{number % 997}") for number in range(requests)]
        before = cpu_s([running.pid])
        result = await send_all(ready, [port])
        return len(result.latencies_ms) / max(0.01, cpu_s([running.pid]) - before), result
    finally:
        running.stop(3)


def main(argv: list[str]) -> int:
    """Measure the floor alone, or with ``--serve PORT`` be it."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench floor", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve:
        web.run_app(app(), host="127.0.0.1", port=args.serve, print=None, access_log=None)
        return 0
    with tempfile.TemporaryDirectory(prefix="yzb") as folder:
        per_cpu_s, result = asyncio.run(measure_floor(Path(folder), args.requests))
    print(
        json.dumps(
            {
                "bench": "floor",
                "requests": args.requests,
                "per_cpu_s": round(per_cpu_s),
                "per_s": round(result.rate),
                "p50_ms": result.percentile(0.5),
                "p99_ms": result.percentile(0.99),
                "answers": dict(result.answers),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
