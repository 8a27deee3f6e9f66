"""Malformed callbacks by the hundred thousand: only 2xx and 4xx may come back, and memory may not grow.

Without ``--http`` they go straight into verify, decrypt and normalize; with it, over real HTTP into a served product.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import TypeAdapter

from config.schema import Account, MpAccount, WecomAccount
from gateway.channel import CallbackRejected, CallbackRequest
from gateway.mp import crypto as mp_crypto
from gateway.mp import inbound as mp_inbound
from gateway.wecom import crypto as wecom_crypto
from gateway.wecom import inbound as wecom_inbound
from gateway.xml import MAX_BYTES
from scripts.bench.malformed import ACCOUNTS, Malformed
from scripts.bench.processes import rss_mb
from scripts.bench.product import product

_WARM_SHARE = 0.1
_CONNECTIONS = 16
_ANSWER_S = 10.0
MAX_GROWTH_MB = 30.0


def main(argv: list[str]) -> int:
    """0 when nothing but 2xx and 4xx came back and memory stayed; the last line printed is one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="how many callbacks")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same callbacks")
    parser.add_argument("--http", action="store_true", help="over real HTTP into a served product")
    args = parser.parse_args(argv)
    report = _over_http(args.count, args.seed) if args.http else in_process(args.count, args.seed)
    print(json.dumps({"bench": "fuzz", "mode": "http" if args.http else "in process", "seed": args.seed, **report}))
    return 0 if report["met"] else 1


# in process ---------------------------------------------------------------------------------------------------------------


def in_process(count: int, seed: int) -> dict[str, Any]:
    """Drive the pure path; every outcome is a status and, for a refusal, its code."""
    adapter: TypeAdapter[WecomAccount | MpAccount] = TypeAdapter(Account)
    accounts = {values["id"]: adapter.validate_python(values) for values in ACCOUNTS}
    source = Malformed(seed)
    outcomes: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    started = time.perf_counter()
    before = 0.0
    for number in range(count):
        if number == int(count * _WARM_SHARE):
            before = rss_mb([os.getpid()])
        account_id, request = source.next()
        try:
            answer(accounts[account_id], request)
            outcomes["200"] += 1
        except CallbackRejected as rejected:
            outcomes[f"{rejected.status} {rejected.code}"] += 1
            if not 400 <= rejected.status < 500:
                errors[f"status {rejected.status}"] += 1
        except Exception as error:  # noqa: BLE001 - what this looks for: anything but a typed refusal
            errors[f"{type(error).__name__}: {error}"[:200]] += 1
    return _report(count, outcomes, errors, time.perf_counter() - started, before, rss_mb([os.getpid()]))


def answer(account: WecomAccount | MpAccount, request: CallbackRequest) -> None:
    """What a callback goes through before anything is stored. Raises CallbackRejected."""
    if isinstance(account, WecomAccount):
        if request.method == "GET":
            wecom_crypto.verify_url(account, request)
            return
        opened = wecom_crypto.open_callback(account, request)
        wecom_inbound.normalize(
            opened.payload, account, "fuzz", is_json=opened.is_json, received_at_ms=0
        ).idempotency_key.encode()
        return
    if request.method == "GET":
        mp_crypto.verify_url(account, request)
        return
    opened = mp_crypto.open_callback(account, request)
    mp_inbound.normalize(opened.payload, account, "fuzz", is_json=opened.is_json, received_at_ms=0).idempotency_key.encode()


# over HTTP ----------------------------------------------------------------------------------------------------------------


def _over_http(count: int, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="yzb") as name, product(Path(name), accounts=ACCOUNTS) as running:
        source = Malformed(seed)
        started = time.perf_counter()
        warm = int(count * _WARM_SHARE)
        outcomes = asyncio.run(_send(source, running.ports[0], warm))
        before = running.rss_mb()[0]
        outcomes += asyncio.run(_send(source, running.ports[0], count - warm))
        seconds = time.perf_counter() - started
        after = running.rss_mb()[0]
        alive = running.gateways[0].process.poll() is None
    errors = Counter({outcome: times for outcome, times in outcomes.items() if outcome[:1] not in ("2", "4")})
    if not alive:
        errors["the gateway ended"] += 1
    return _report(count, outcomes, errors, seconds, before, after)


async def _send(source: Malformed, port: int, count: int) -> Counter[str]:
    """Send the next ``count`` over kept-alive connections; the statuses that came back."""
    outcomes: Counter[str] = Counter()
    left = iter(range(count))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            account_id, request = source.next()
            method = request.method if number % 50 else "PUT"
            try:
                async with asyncio.timeout(_ANSWER_S):
                    writer.write(wire(port, account_id, request, method))
                    status, keep = await _read(reader)
            except TimeoutError:
                status, keep = "no answer in time", False
            except (OSError, EOFError):
                status, keep = "closed, body too large" if len(request.body) > MAX_BYTES else "closed", False
            outcomes[status] += 1
            if not keep:
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    await asyncio.gather(*(connection() for _ in range(_CONNECTIONS)))
    return outcomes


async def _read(reader: asyncio.StreamReader) -> tuple[str, bool]:
    """One answer's status, and whether the connection stays."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    await reader.readexactly(int(fields.get("content-length", "0")))
    return head[9:12], fields.get("connection") != "close"


def wire(port: int, account_id: str, request: CallbackRequest, method: str) -> bytes:
    """The request as HTTP/1.1 bytes, with this method."""
    pairs = [(name, value) for name, values in request.query.items() for value in values]
    query = urlencode(pairs, quote_via=quote, errors="replace")[:6000]
    content_type = request.content_type.encode("ascii", "ignore").decode()
    head = f"{method} /callback/{account_id}?{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    head += f"Content-Type: {content_type}\r\n" if content_type else ""
    return f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode("ascii") + request.body


def _report(
    count: int, outcomes: Counter[str], errors: Counter[str], seconds: float, before: float, after: float
) -> dict[str, Any]:
    return {
        "count": count,
        "seconds": round(seconds, 1),
        "outcomes": dict(sorted(outcomes.items())),
        "errors": dict(errors),
        "rss_before_mb": before,
        "rss_after_mb": after,
        "met": not errors and after - before < MAX_GROWTH_MB,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
