"""Durable acknowledged callbacks per CPU second, the product beside the floor in one run.

``view`` events of an Official Account in safe mode, answered with a plain ``success`` once their row is on disk. CPU
seconds are user and system time of every product process, Valkey included; a PostgreSQL server's are printed beside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scripts.bench.envelopes import Sealer
from scripts.bench.floor import measure_floor
from scripts.bench.load import send_all
from scripts.bench.postgres import NoPostgres, Postgres
from scripts.bench.processes import cpu_s
from scripts.bench.product import product


async def _load(ports: list[int], pids: list[int], server: list[int], requests: int, first: int) -> dict[str, Any]:
    """Warm up, a closed loop for the rate, then an open loop at half of it for the latencies."""
    sealers = [Sealer(port) for port in ports]

    def ready(count: int, start: int) -> list[bytes]:
        return [sealers[number % len(sealers)].view(start + number, f"oUser{number % 997}") for number in range(count)]

    await send_all(ready(300, first), ports)
    before, server_before = cpu_s(pids), cpu_s(server)
    full = await send_all(ready(requests, first + 1_000), ports)
    used, server_used = cpu_s(pids) - before, cpu_s(server) - server_before
    count = max(500, requests // 2)
    half = await send_all(ready(count, first + 1_000_000), ports, rate=max(20.0, full.rate / 2))
    good = full.answers["200 success"]
    return {
        "per_cpu_s": round(good / max(0.01, used)),
        "per_cpu_s_with_server": round(good / max(0.01, used + server_used)),
        "per_s": round(full.rate),
        "full_p99_ms": full.percentile(0.99),
        "half_load_per_s": round(full.rate / 2),
        "half_p50_ms": half.percentile(0.5),
        "half_p99_ms": half.percentile(0.99),
        "half_max_ms": half.percentile(1.0),
        "answers": dict(full.answers + half.answers),
    }


def _measure(folder: Path, database: str, gateways: int, requests: int) -> dict[str, Any]:
    """One configuration. Raises NoPostgres."""
    folder.mkdir()
    with ExitStack() as stack:
        url, server = None, []
        if database == "postgresql":
            store = stack.enter_context(Postgres("max_connections=80", "shared_buffers=256MB"))
            server, url = [store.pid], store.url
        running = stack.enter_context(product(folder, gateways=gateways, database_url=url))
        result = asyncio.run(_load(running.ports, running.pids, server, requests, 1))
        result["rss_mb"] = running.rss_mb()
        return result


def main(argv: list[str]) -> int:
    """Floor, then each configuration, then the floor again; the ratio is against the mean of the floors. 0 when every goal is
    met."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench callbacks", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000, help="callbacks of each closed-loop run")
    parser.add_argument("--only", choices=("sqlite", "postgresql"), help="one database only")
    parser.add_argument("--gateways", type=int, choices=(1, 2), help="one number of gateway processes only")
    args = parser.parse_args(argv)
    report: dict[str, Any] = {"bench": "callbacks", "requests": args.requests, "floor": [], "runs": {}, "skipped": []}
    with tempfile.TemporaryDirectory(prefix="yzb") as name:
        root = Path(name)
        for database in (args.only,) if args.only else ("sqlite", "postgresql"):
            for gateways in (args.gateways,) if args.gateways else (1, 2):
                report["floor"].append(round(asyncio.run(measure_floor(root, args.requests))[0]))
                label = f"{database}-{gateways}"
                try:
                    measured = _measure(root / label, database, gateways, args.requests)
                except NoPostgres as reason:
                    report["skipped"].append(f"{label}: {reason}")
                    continue
                report["runs"][label] = measured
                print(f"{label}: floor {report['floor'][-1]}, {json.dumps(measured)}", flush=True)
        report["floor"].append(round(asyncio.run(measure_floor(root, args.requests))[0]))
    floor = statistics.mean(report["floor"])
    for measured in report["runs"].values():
        measured["share_of_floor"] = round(measured["per_cpu_s"] / floor, 3)
        measured["share_of_floor_with_server"] = round(measured["per_cpu_s_with_server"] / floor, 3)
    report["target"] = {"share_of_floor": 0.30, "half_p99_ms": 50}
    held = [run["share_of_floor"] >= 0.30 and run["half_p99_ms"] < 50 for run in report["runs"].values()]
    report["met"] = bool(held) and all(held)
    print(json.dumps(report))
    return 0 if report["met"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
