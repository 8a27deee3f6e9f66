"""Processes killed at random while messages come in: every acknowledged one answered, once where the platform can tell.

People on both platforms write through the simulator; gateway, worker and Valkey are killed with -9 at random moments and the
platform answers with errors and timeouts. The model echoes a tag that each message carries, so every answer is recognized.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.bench.demo_up import CHILDREN, DemoUp
from scripts.bench.echo_model import ANSWER, TAG, echo_model

FAULTS: tuple[dict[str, Any], ...] = (
    {"fault": "busy", "count": 3},
    {"fault": "http_500", "count": 1},
    {"fault": "accept_then_timeout", "count": 1},
    {"fault": "accept_then_502", "count": 2},
    {"fault": "accept_then_close", "count": 2},
    {"fault": "connection_refused", "count": 3},
    {"fault": "html_200", "count": 1},
    {"fault": "truncated_json", "count": 1},
    {"fault": "slow_ms", "value": 2000, "count": 3},
    {"fault": "token_revoked"},
    {"fault": "token_expired"},
    {"fault": "callback_lose_reply", "count": 2},
)
ACCOUNTS = ("wecom-main", "mp-main")
HAS_HANDLE = ("wecom-main",)
"""Accounts whose platform recognizes a repeated send, so that an answer comes exactly once."""

APOLOGY = "没能完成"
LIMITS = {"turns_per_minute": 10_000, "waiting_per_person": 1_000, "queued_per_tenant": 100_000}


@dataclass(slots=True)
class Tally:
    """What was sent and what came of it."""

    said: dict[str, tuple[str, str]] = field(default_factory=dict)
    """tag → (account, user)"""
    acknowledged: set[str] = field(default_factory=set)
    deliveries: Counter[int] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    saying_failed: int = 0
    lost_on_the_way: int = 0
    """Messages whose every answer got lost between gateway and platform: neither side can know."""


async def _person(up: DemoUp, account: str, user: str, tags: list[str], tally: Tally, pause_s: float, rng: random.Random) -> None:
    """One person who writes one message after another, as people do: not before the last one is over."""
    for tag in tags:
        tally.said[tag] = (account, user)
        try:
            result = await up.post("say", {"account": account, "user": user, "text": f"请看一下 {tag}"})
        except Exception:  # noqa: BLE001 -- the simulator itself must not fail; counted, and the run goes on
            tally.saying_failed += 1
            continue
        tried = result.get("deliveries") or []
        tally.deliveries[len(tried)] += 1
        if any(delivery.get("outcome") == "ok" for delivery in tried):
            tally.acknowledged.add(tag)
        elif any(delivery.get("outcome") == "lost" for delivery in tried):
            tally.lost_on_the_way += 1
        await asyncio.sleep(rng.uniform(0, 2 * pause_s))


async def _trouble(up: DemoUp, tally: Tally, rng: random.Random, kill_every_s: float, stop: asyncio.Event) -> None:
    """Kill a child or switch a fault on, again and again."""
    while not stop.is_set():
        await asyncio.sleep(rng.uniform(0.3, 1.0) * kill_every_s)
        if rng.random() < 0.5:
            child = rng.choice(CHILDREN)
            if up.kill(child):
                tally.kills[child] += 1
        else:
            fault = dict(rng.choice(FAULTS), account=rng.choice(ACCOUNTS))
            await up.post("faults", fault)
            tally.faults[fault["fault"]] += 1


def _open_rows(database: Path) -> dict[str, int]:
    """Rows that are not settled, by table and state; parked ones wait for their person and are not stuck."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10) as connection:
        queries = {
            "inbound": "SELECT status, count(*) FROM inbound WHERE status IN ('received', 'running') GROUP BY status",
            "outbox": "SELECT status, count(*) FROM outbox_message WHERE status IN "
            "('passive_reserved', 'pending', 'sending') GROUP BY status",
            "job": "SELECT status, count(*) FROM job WHERE status IN ('queued', 'running') GROUP BY status",
        }
        return {f"{name}:{status}": count for name, query in queries.items() for status, count in connection.execute(query)}


def _states(database: Path) -> dict[str, Any]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10) as connection:
        states = dict(connection.execute("SELECT status, count(*) FROM outbox_message WHERE final GROUP BY status"))
        ways = dict(connection.execute("SELECT via, count(*) FROM outbox_message WHERE final AND via IS NOT NULL GROUP BY via"))
        repeats = connection.execute("SELECT coalesce(sum(repeats), 0) FROM outbox_message").fetchone()[0]
        deaths = connection.execute("SELECT coalesce(sum(deaths), 0) FROM inbound").fetchone()[0]
        return {"final_by_state": states, "final_by_way": ways, "repeated_unknown": repeats, "turns_rerun": deaths}


async def _settle(up: DemoUp, people: list[tuple[str, str]], limit_s: float) -> tuple[float, dict[str, int]]:
    """Wait until no row is open; people whose answers were parked pick them up with 继续."""
    begun = time.monotonic()
    database = up.data_dir / "yizhan.db"
    while time.monotonic() - begun < limit_s:
        if not await asyncio.to_thread(_open_rows, database):
            parked = await asyncio.to_thread(_parked, database)
            if not parked:
                break
            await asyncio.gather(
                *(up.post("say", {"account": a, "user": u, "text": "继续"}) for a, u in parked if (a, u) in people)
            )
        await asyncio.sleep(0.5)
    return time.monotonic() - begun, await asyncio.to_thread(_open_rows, database)


def _unknown(database: Path) -> set[str]:
    """Tags whose final answer went out twice without any sign of arrival, on a platform that cannot tell (N-05)."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10) as connection:
        query = "SELECT payload FROM outbox_message WHERE final AND status = 'unknown'"
        return {tag for (payload,) in connection.execute(query) for tag in TAG.findall(str(payload))}


def _parked(database: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10) as connection:
        query = "SELECT DISTINCT account_id, user_id FROM outbox_message WHERE status = 'parked' AND final"
        return [(str(account), str(user)) for account, user in connection.execute(query)]


async def _count_answers(up: DemoUp, people: list[tuple[str, str]]) -> tuple[Counter[str], set[str]]:
    """How often each tag was answered, and the tags that got an apology, as the people saw it."""
    answered: Counter[str] = Counter()
    apologies: set[str] = set()
    for account, user in people:
        for entry in await up.get("inbox", account=account, user=user):
            text = str(entry.get("text") or "")
            if ANSWER in text:
                answered.update(set(TAG.findall(text.split(ANSWER, 1)[1])))
            elif APOLOGY in text:
                apologies.update(TAG.findall(text))
    return answered, apologies


async def run(folder: Path, messages: int, people_count: int, seed: int, minutes: float) -> dict[str, Any]:
    """One run; the report."""
    rng = random.Random(seed)
    people = [
        (ACCOUNTS[number % 2], f"{'chaos' if number % 2 == 0 else 'oChaosFollower'}{number:03d}")
        for number in range(people_count)
    ]
    tally = Tally()
    async with echo_model((0.02, 0.05, 0.1, 0.3, 1.5, 3.0), seed) as (model, url):
        route = {"name": "echo", "base_url": url, "model": "echo", "local": True}
        more = {"models": [route], "limits": LIMITS, "log_level": "INFO"}
        async with DemoUp(folder, more=more, account={"reply_deadline_s": 1.0}) as up:
            tags = [f"m{number:05d}" for number in range(messages)]
            pause_s = minutes * 60 / max(1, messages / people_count)
            stop = asyncio.Event()
            trouble = asyncio.create_task(_trouble(up, tally, rng, 4.0, stop))
            talking = [
                _person(up, account, user, tags[index::people_count], tally, pause_s, random.Random(seed + index))
                for index, (account, user) in enumerate(people)
            ]
            begun = time.monotonic()
            await asyncio.gather(*talking)
            talked_s = time.monotonic() - begun
            stop.set()
            await trouble
            await up.post("faults", {"clear": True})
            settled_s, stuck = await _settle(up, people, 180)
            answered, apologies = await _count_answers(up, people)
            unknown = await asyncio.to_thread(_unknown, up.data_dir / "yizhan.db")
            states = await asyncio.to_thread(_states, up.data_dir / "yizhan.db")
    report = _report(tally, answered, apologies, unknown, stuck)
    report |= {"talked_s": round(talked_s), "settled_s": round(settled_s, 1), "model_calls": model.calls, "seed": seed, **states}
    return report


def _report(
    tally: Tally, answered: Counter[str], apologies: set[str], unknown: set[str], stuck: dict[str, int]
) -> dict[str, Any]:
    unseen = {tag for tag in tally.acknowledged if not answered[tag] and tag not in apologies}
    missing = sorted(unseen - {tag for tag in unknown if tally.said[tag][0] not in HAS_HANDLE})
    twice = {tag: count for tag, count in answered.items() if count > 1}
    with_handle = sorted(tag for tag in twice if tally.said[tag][0] in HAS_HANDLE)
    return {
        "bench": "chaos",
        "messages": len(tally.said),
        "acknowledged": len(tally.acknowledged),
        "answered": sum(1 for tag in tally.acknowledged if answered[tag]),
        "apologies": len(apologies),
        "unknown_and_unseen": len(unseen) - len(missing),
        "missing": len(missing),
        "missing_tags": [(tag, *tally.said[tag]) for tag in missing[:10]],
        "twice_with_handle": len(with_handle),
        "twice_with_handle_tags": [(tag, *tally.said[tag]) for tag in with_handle[:10]],
        "twice_without_handle": len(twice) - len(with_handle),
        "stuck": stuck,
        "kills": dict(tally.kills),
        "faults": dict(tally.faults),
        "deliveries": {str(number): count for number, count in sorted(tally.deliveries.items())},
        "saying_failed": tally.saying_failed,
        "lost_on_the_way": tally.lost_on_the_way,
        "met": not missing and not with_handle and not stuck,
    }


def main(argv: list[str]) -> int:
    """0 when nothing was lost, doubled or stuck."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench chaos", description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--people", type=int, default=60, help="half of them on each platform")
    parser.add_argument("--minutes", type=float, default=3.0, help="about how long the talking lasts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in this folder and leave it there")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="yzb") as name:
        folder = args.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        report = asyncio.run(run(folder, args.messages, args.people, args.seed, args.minutes))
    print(json.dumps(report, ensure_ascii=False))
    return 0 if report["met"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
