"""What the product adds in time: dispatch to a turn, enqueue to worker start, result to push request; cold start, idle memory."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.bench.demo_up import DemoUp
from scripts.bench.echo_model import echo_model
from scripts.bench.envelopes import Sealer
from scripts.bench.load import send_all
from scripts.bench.processes import rss_mb
from scripts.bench.product import product

GOALS = {
    "dispatch_added_ms": 5.0,
    "enqueue_to_worker_ms": 50.0,
    "result_to_push_ms": 100.0,
    "cold_start_s": 3.0,
    "idle_gateway_mb": 150.0,
}


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 2) if values else None


def _disk_ms(folder: Path) -> float:
    """The median time of one fdatasync here: a turn waits for several, and they are in every figure below."""
    times = []
    with (folder / "disk").open("wb") as file:
        for _ in range(60):
            file.write(bytes(4096))
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1000)
    return round(statistics.median(times), 2)


def _dispatch(folder: Path, turns: int) -> dict[str, Any]:
    """One text after another, each from a new person, to a gateway with the offline model: answer time less the turn's own."""
    folder.mkdir()
    with product(folder) as running:
        sealer = Sealer(running.ports[0])
        asyncio.run(
            send_all([sealer.text(number, f"oWarm{number}", "你好") for number in range(20)], running.ports, connections=1)
        )
        ready = [sealer.text(1_000 + number, f"oPerson{number}", "今天天气怎么样") for number in range(turns)]
        result = asyncio.run(send_all(ready, running.ports, connections=1))
        time.sleep(1.0)  # the last turn's row
        idle_mb = running.rss_mb()[0]
    with sqlite3.connect(folder / "data" / "yizhan.db") as connection:
        query = (
            "SELECT t.total_ms FROM turn t JOIN inbound i ON i.seq = t.inbound_seq WHERE i.user_id LIKE 'oPerson%' ORDER BY i.seq"
        )
        own = [float(row[0]) for row in connection.execute(query)]
    added = [whole - turn for whole, turn in zip(result.latencies_ms, own, strict=False)]
    return {
        "turns": len(own),
        "answer_p50_ms": result.percentile(0.5),
        "answer_p99_ms": result.percentile(0.99),
        "turn_p50_ms": _median(own),
        "dispatch_added_ms": _median(added),
        "gateway_after_turns_mb": idle_mb,
        "answers": dict(result.answers),
    }


async def _deferred(folder: Path, count: int) -> dict[str, Any]:
    """Jobs behind 诊断, and answers too slow for the HTTP response: what passes between the rows' own moments."""
    async with echo_model((1.2,)) as (_, url):
        more = {"models": [{"name": "echo", "base_url": url, "model": "echo", "local": True}]}
        async with DemoUp(folder, more=more, account={"reply_deadline_s": 1.0}) as up:
            await asyncio.sleep(2.0)
            pid = up.pid("serve")
            idle_mb = rss_mb([pid]) if pid else 0.0
            for number in range(count):
                await up.post("say", {"account": "wecom-main", "user": f"slow{number}", "text": f"请看 m{number:05d}"})
                await up.post("say", {"account": "wecom-main", "user": "zhangsan", "text": "诊断"})
                await _until_quiet(up.data_dir / "yizhan.db", 20)
            ready_s = up.ready_s
        database = up.data_dir / "yizhan.db"
    return {**_gaps(database), "cold_start_s": round(ready_s, 2), "idle_gateway_mb": idle_mb}


async def _until_quiet(database: Path, limit_s: float) -> None:
    query = (
        "SELECT (SELECT count(*) FROM job WHERE status IN ('queued', 'running')) + "
        "(SELECT count(*) FROM outbox_message WHERE status IN ('pending', 'sending', 'passive_reserved')) + "
        "(SELECT count(*) FROM inbound WHERE status IN ('received', 'running'))"
    )
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as connection:
            if not connection.execute(query).fetchone()[0]:
                return
        await asyncio.sleep(0.05)


def _gaps(database: Path) -> dict[str, Any]:
    with sqlite3.connect(database) as connection:
        jobs = "SELECT started_at_ms - created_at_ms FROM job WHERE started_at_ms IS NOT NULL"
        pushes = (
            "SELECT frozen_at_ms - created_at_ms FROM outbox_message WHERE via = 'push' AND part = 0 AND frozen_at_ms IS NOT NULL"
        )
        started = [float(row[0]) for row in connection.execute(jobs)]
        pushed = [float(row[0]) for row in connection.execute(pushes)]
    return {
        "jobs": len(started),
        "enqueue_to_worker_ms": _median(started),
        "pushes": len(pushed),
        "result_to_push_ms": _median(pushed),
        "result_to_push_max_ms": max(pushed, default=None),
    }


def main(argv: list[str]) -> int:
    """0 when every goal is met."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench latency", description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=20)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="yzb") as name:
        report: dict[str, Any] = {"bench": "latency", "disk_fdatasync_ms": _disk_ms(Path(name))}
        report |= {**_dispatch(Path(name) / "dispatch", args.turns)}
        deferred = Path(name) / "deferred"
        deferred.mkdir()
        report |= asyncio.run(_deferred(deferred, args.jobs))
    report["goals"] = GOALS
    report["missed"] = [key for key, goal in GOALS.items() if report.get(key) is None or report[key] > goal]
    print(json.dumps(report, ensure_ascii=False))
    return 1 if report["missed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
