"""Cost per message from 1 to 1,000,000 stored messages: processor time, latency, memory and start-up of one gateway.

The people who write are those whose messages are stored, so each brings a history of a thousandth of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from config.clock import Clock
from gateway.migrate import upgrade
from scripts.bench.envelopes import ACCOUNT_ID, Sealer
from scripts.bench.load import send_all
from scripts.bench.product import Product, product
from scripts.bench.seed import person, seed

SIZES = (1, 10_000, 100_000, 1_000_000)
FLAT = 1.3
"""Largest cost over smallest that still counts as flat."""


_PEOPLE, _ROUNDS = 60, 8


async def _measure(running: Product, messages: int, first: int) -> dict[str, Any]:
    """Text messages of seeded people over four connections, after enough of them that every person's window of recent
    rounds is full at every size: what grows is then what is stored, not what a turn reads of its own conversation."""
    sealer = Sealer(running.ports[-1])

    def ready(count: int, start: int) -> list[bytes]:
        return [sealer.text(start + number, person(number % _PEOPLE * 7), "今天天气怎么样") for number in range(count)]

    await send_all(ready(_PEOPLE * _ROUNDS, first), running.ports[-1:], connections=4)
    before = running.cpu_s()
    result = await send_all(ready(messages, first + 1_000), running.ports[-1:], connections=4)
    used = running.cpu_s() - before
    return {
        "cpu_ms_per_message": round(used * 1000 / messages, 2),
        "p50_ms": result.percentile(0.5),
        "p99_ms": result.percentile(0.99),
        "per_s": round(result.rate),
        "rss_mb": running.rss_mb()[-1],
        "answers": {str(status)[:3]: count for status, count in result.answers.items()},
    }


def _run(folder: Path, sizes: list[int], messages: int) -> dict[str, Any]:
    report: dict[str, Any] = {}
    database = folder / "data" / "yizhan.db"
    stored = 0
    with product(folder, gateways=0, more={"limits": {"turns_per_minute": 10_000}}) as running:
        upgrade(f"sqlite:///{database}")
        for round_number, size in enumerate(sizes):
            begun = time.monotonic()
            seed(database, "bench", ACCOUNT_ID, stored + 1, size + 1, Clock().now_ms())
            stored, seeded_s = max(stored, size), time.monotonic() - begun
            started_s = running.start_gateway()
            measured = asyncio.run(_measure(running, messages, 50_000_000 + round_number * 1_000_000))
            running.stop()
            running.gateways.clear()
            measured |= {"start_s": round(started_s, 2), "seeded_s": round(seeded_s, 1)}
            measured["database_mb"] = round(database.stat().st_size / 1_048_576)
            report[str(size)] = measured
            print(f"{size}: {json.dumps(measured)}", flush=True)
    return report


def main(argv: list[str]) -> int:
    """0 when cost, memory and start-up stay flat."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench growth", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--messages", type=int, default=600, help="messages measured at each size")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="yzb") as name:
        runs = _run(Path(name), sorted(args.sizes), args.messages)
    costs, starts = ([run[key] for run in runs.values()] for key in ("cpu_ms_per_message", "start_s"))
    growth = {
        "cpu": round(costs[-1] / max(0.01, costs[0]), 2),
        "memory": round(max(run["rss_mb"] for run in runs.values()) / min(run["rss_mb"] for run in runs.values()), 2),
        "start": round(starts[-1] / max(0.01, starts[0]), 2),
    }
    report = {"bench": "growth", "runs": runs, "growth": growth, "goal": FLAT, "met": growth["cpu"] <= FLAT}
    print(json.dumps(report))
    return 0 if report["met"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
