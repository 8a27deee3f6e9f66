"""Runs a benchmark by name: ``python -m scripts.bench NAME [options]``; ``--help`` lists them."""

from __future__ import annotations

import importlib
import sys

BENCHES = {
    "floor": "what bare aiohttp does with a callback: verify, decrypt, parse, answer success",
    "callbacks": "durable acknowledged callbacks per CPU second, beside the floor; one and two processes; SQLite, PostgreSQL",
    "latency": "what dispatch adds, enqueue to worker, result to push, cold start, idle memory",
    "turn": "what the assistant's own code costs in a turn",
    "tokens": "eight processes, expiring and revoked access_tokens: one fetch per expiry, no failed push",
    "confirm": "sixteen clickers in two processes, and kill -9 between confirm and result: one execution an action",
    "chaos": "processes killed at random while messages come in: every one answered",
    "fuzz": "malformed callbacks: no 5xx, no traceback, no growth in memory",
    "growth": "cost per message from 1 to 1,000,000 stored messages; memory and start-up",
}


def main(argv: list[str]) -> int:
    """Dispatch to ``scripts.bench.NAME.main(argv) -> int``; 2 for an unknown name."""
    if not argv or argv[0] in ("-h", "--help"):
        print("python -m scripts.bench NAME [--help]\n")
        print("\n".join(f"  {name:10} {text}" for name, text in BENCHES.items()))
        return 0 if argv else 2
    name = argv[0]
    if name not in BENCHES:
        print(f"no benchmark {name}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    return int(importlib.import_module(f"scripts.bench.{name}").main(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
