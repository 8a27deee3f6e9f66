"""Sixteen people click at once in two processes: exactly one execution an action; then the same with kill -9 in between.

Foreign users and changed digests are among the clicks. ``--database`` may be given more than once. Prints JSON; exit code
1 when an action ran twice, or not at all.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Connection, select
from sqlmodel import SQLModel

import agent.models  # noqa: F401 -- the tables of every floor
import memory.models  # noqa: F401
from agent.intents import read_decision
from agent.protocol import Capability
from config.clock import Clock
from config.database import Database, open_database
from config.errors import DatabaseBusy
from config.ports import Draft
from config.schema import Settings, Tenant, WecomAccount
from gateway.channels import open_channels, open_session
from gateway.outbox import SqlOutbox
from gateway.outbox_states import ROWS
from memory.keys import conversation_id
from tools.assembly import ToolSet, open_tools
from tools.base import Checked, Tool, ToolContext, ToolResult
from tools.context import Place
from tools.decided import Actor, Answer
from tools.proposals import ACTIONS, short_digest
from tools.registry import CallOutcome

KINDS = ("plain", "keyed", "checked")
_PROCESSES = 2


class Office:
    """One process: the tools on a database, whose effects are lines of a file."""

    def __init__(self, database: Database, session: Any, effects: Path, pause_s: float) -> None:
        account = WecomAccount(
            id="wecom-main",
            platform="wecom",
            corp_id="ww0123456789abcdef",
            agent_id=1000002,
            secret=SecretStr("s3cret"),
            callback_token="token",  # noqa: S106 -- nobody is called
            encoding_aes_key=SecretStr("a" * 43),
        )
        self.settings = Settings(tenants=(Tenant(id="acme", accounts=(account,)),))
        self.clock, self.database, self.effects, self.pause_s = Clock(), database, effects, pause_s
        channels = open_channels(self.settings, session, None, self.clock)
        self.outbox = SqlOutbox(channels.by_account, self.clock, self.settings.limits)
        can = Capability(can_push=True, can_card=True, can_menu=False)
        tools = [self._tool(kind) for kind in KINDS]
        self.tools: ToolSet = open_tools(self.settings, self.clock, database, self.outbox, lambda _: can, extra=tools)

    def _tool(self, kind: str) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
            """A keyed system drops a key it knows; the others do it again when asked again."""
            await asyncio.sleep(random.random() * self.pause_s)
            if kind != "keyed" or context.call_key not in self.effects.read_text("utf-8"):
                with self.effects.open("a", encoding="utf-8") as file:
                    file.write(f"{context.call_key} {arguments['n']}\n")
            await asyncio.sleep(random.random() * self.pause_s)
            return ToolResult(f"did {arguments['n']}")

        async def check(context: ToolContext, arguments: Mapping[str, Any]) -> Checked:
            return "done" if context.call_key in self.effects.read_text("utf-8") else "not_done"

        return Tool(
            name=f"act_{kind}",
            title="动作",
            description="x",
            parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            run=run,
            tool_class="operation",
            idempotent=kind == "keyed",
            check=check if kind == "checked" else None,
            timeout_s=1.0,
        )


def person(number: int) -> str:
    """Each action has a conversation of its own, so that 确认 means it."""
    return f"user{number}"


def where(number: int) -> str:
    """The conversation of one person."""
    return conversation_id("acme", "wecom-main", "single", person(number))


async def propose(office: Office, count: int, kinds: tuple[str, ...]) -> None:
    """Park ``count`` actions and mark their prompts as delivered."""
    for number in range(count):
        place = Place("acme", "wecom-main", where(number), "s", person(number), "wecom_userid")
        context = office.tools.contexts.of(place)
        outcome = await office.tools.registry.call(context, f"act_{kinds[number % len(kinds)]}", {"n": number})
        await office.database.write(functools.partial(_publish, office, context, outcome))
    sent = {"status": "sent", "via": "push", "sent_at_ms": office.clock.now_ms() - 3000}
    await office.database.write(lambda c: c.execute(ROWS.update().values(**sent)))


def _publish(office: Office, context: ToolContext, outcome: CallOutcome, connection: Connection) -> None:
    """What a turn's commit does: the action and its prompt's message together."""
    if outcome.prompt is None:
        raise RuntimeError(outcome.summary)
    for change in outcome.writes:
        change(connection)
    draft = Draft(
        idempotency_key=f"p:{outcome.prompt.action_id}",
        tenant_id="acme",
        account_id="wecom-main",
        conversation_id=context.conversation_id,
        user_id=context.user_id,
        session_id="s",
        cause="inbound",
        cause_id="0",
        text=outcome.prompt.text,
        action_id=outcome.prompt.action_id,
    )
    office.outbox.put(connection, draft)


async def click(office: Office, row: Any, clicker: int, tally: Counter[str]) -> None:
    """One click or word: of the right person mostly, sometimes of another, sometimes with another digest."""
    number = int(json.loads(row.args_json)["n"])
    way = random.choice(("card", "card", "word", "word", "number", "foreign", "digest"))
    now = office.clock.now_ms()
    actor = Actor(
        tenant_id="acme",
        account_id="wecom-main",
        conversation_id=where(number),
        session_id="s",
        user_id="mallory" if way == "foreign" else person(number),
        id_type="wecom_userid",
        message_key=f"m{os.getpid()}:{clicker}:{row.id}",
        said_at_ms=now // 1000 * 1000,
        received_at_ms=now,
    )
    confirm = office.tools.confirm
    digest = "0" * 16 if way == "digest" else short_digest(row.args_digest)
    if way in ("card", "foreign", "digest"):
        answer: Answer = await confirm.decide_card(actor, f"pa1|{row.id}|{digest}|c", f"rc{actor.message_key}")
    else:
        decision = read_decision("确认" if way == "word" else f"确认 {row.number}")
        if decision is None:
            raise RuntimeError("确认 was not read")
        answer = await confirm.decide(actor, decision)
    if answer.execute is None:
        tally["answered" if answer.text else "silent"] += 1
        return
    if way in ("foreign", "digest"):
        tally["wrongly_granted"] += 1
    tally["granted"] += 1
    await office.tools.executor.execute(answer.execute)


async def work(url: str, effects: Path, clickers: int, pause_s: float) -> Counter[str]:
    """One process: every clicker clicks every action once, in an order of its own."""
    database, session, tally = open_database(url), open_session(), Counter[str]()
    try:
        office = Office(database, session, effects, pause_s)
        rows = await database.read(lambda c: c.execute(select(ACTIONS)).all())

        async def clicking(clicker: int) -> None:
            mine = list(rows)
            random.shuffle(mine)
            for row in mine:
                while True:
                    try:
                        await click(office, row, clicker, tally)
                        break
                    except DatabaseBusy:  # the callback stays unanswered and the platform delivers again
                        tally["delivered_again"] += 1

        await asyncio.gather(*(clicking(number) for number in range(clickers)))
    finally:
        await session.close()
        await database.close()
    return tally


async def prepare(url: str, effects: Path, actions: int, kinds: tuple[str, ...]) -> None:
    """Tables and actions."""
    database, session = open_database(url), open_session()
    try:
        await database.write(lambda c: SQLModel.metadata.create_all(c))
        await propose(Office(database, session, effects, 0), actions, kinds)
    finally:
        await session.close()
        await database.close()


async def settle(url: str, effects: Path) -> list[Any]:
    """Let the reaper finish what killed processes left behind; every action as it ended."""
    database, session = open_database(url), open_session()
    try:
        office = Office(database, session, effects, 0)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            await office.tools.executor.reap()
            rows = await database.read(lambda c: c.execute(select(ACTIONS)).all())
            if not any(row.status == "executing" for row in rows):
                return list(rows)
            await asyncio.sleep(0.5)
        return list(rows)
    finally:
        await session.close()
        await database.close()


def spawn(url: str, effects: Path, clickers: int, pause_s: float) -> subprocess.Popen[bytes]:
    """One clicking process."""
    command = [sys.executable, "-m", "scripts.bench.confirm", "--worker", url, str(effects), str(clickers), str(pause_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def counts(effects: Path) -> Counter[int]:
    """How often each action really happened."""
    return Counter(int(line.split()[1]) for line in effects.read_text("utf-8").splitlines())


def race(url: str, folder: Path, *, actions: int, clickers: int) -> dict[str, Any]:
    """Two processes of clickers; nobody dies."""
    effects, started = folder / "race.txt", time.monotonic()
    effects.write_text("", "utf-8")
    asyncio.run(prepare(url, effects, actions, ("plain",)))
    children = [spawn(url, effects, clickers // _PROCESSES, 0.002) for _ in range(_PROCESSES)]
    tallies = [Counter(json.loads(child.communicate(timeout=600)[0] or b"{}")) for child in children]
    happened, tally = counts(effects), sum(tallies, Counter[str]())
    return {
        "actions": actions,
        "clicks": actions * clickers,
        "granted": tally["granted"],
        "wrongly_granted": tally["wrongly_granted"],
        "silent": tally["silent"],
        "delivered_again": tally["delivered_again"],
        "executed_once": sum(times == 1 for times in happened.values()),
        "executed_twice": sum(times > 1 for times in happened.values()),
        "seconds": round(time.monotonic() - started, 1),
        "ok": all(child.returncode == 0 for child in children)
        and dict(happened) == dict.fromkeys(range(actions), 1)
        and tally["wrongly_granted"] == 0 == tally["silent"],
    }


def kills(url: str, folder: Path, *, actions: int, clickers: int, deaths: int) -> dict[str, Any]:
    """The same while processes are killed at random and replaced; then the reaper."""
    effects = folder / "kills.txt"
    effects.write_text("", "utf-8")
    asyncio.run(prepare(url, effects, actions, KINDS))
    for _ in range(deaths):
        child = spawn(url, effects, clickers, 0.2)
        _wait_for_growth(effects, child)
        time.sleep(random.random() * 0.5)
        child.send_signal(signal.SIGKILL)
        child.communicate()
    spawn(url, effects, clickers, 0.02).communicate(timeout=600)
    rows, happened = asyncio.run(settle(url, effects)), counts(effects)
    by_status = Counter(row.status for row in rows)
    double = {kind: 0 for kind in KINDS}
    lied = 0
    for row in rows:
        times = happened[int(json.loads(row.args_json)["n"])]
        double[row.tool.removeprefix("act_")] += times > 1
        lied += (row.status == "succeeded" and times == 0) or (
            row.status in ("failed", "withdrawn", "rejected", "expired") and times > 0
        )
    ended = {"succeeded", "failed", "needs_human", "withdrawn"}
    return {
        "actions": actions,
        "deaths": deaths,
        "statuses": dict(by_status),
        "double": double,
        "told_wrong": lied,
        "ok": not any(double.values()) and lied == 0 and set(by_status) <= ended | {"confirmed", "pending"},
    }


def _wait_for_growth(effects: Path, child: subprocess.Popen[bytes]) -> None:
    """Until the process has begun to act."""
    size, deadline = effects.stat().st_size, time.monotonic() + 20
    while effects.stat().st_size == size and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def main(argv: list[str]) -> int:
    """Run both on each database; 0 when every action ran exactly once."""
    if argv[:1] == ["--worker"]:
        url, effects, clickers, pause_s = argv[1:5]
        print(json.dumps(asyncio.run(work(url, Path(effects), int(clickers), float(pause_s)))))
        return 0
    parser = argparse.ArgumentParser(prog="bench confirm", description=__doc__)
    parser.add_argument("--database", action="append", default=[], metavar="URL", help="an empty database (default: SQLite)")
    parser.add_argument("--actions", type=int, default=100)
    parser.add_argument("--clickers", type=int, default=16)
    parser.add_argument("--deaths", type=int, default=8)
    parser.add_argument("--only", choices=("race", "kills"))
    args = parser.parse_args(argv)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for url in args.database or [None]:
            for what in ("race", "kills"):
                if args.only not in (None, what):
                    continue
                target = url or f"sqlite:///{folder / f'{what}.db'}"
                found = (
                    race(target, folder, actions=args.actions, clickers=args.clickers)
                    if what == "race"
                    else kills(target, folder, actions=args.actions, clickers=args.clickers, deaths=args.deaths)
                )
                results.append({"bench": f"confirm.{what}", "database": target.split(":", 1)[0], **found})
                if url is not None:
                    asyncio.run(_empty(url))
    print(json.dumps(results, ensure_ascii=False, indent=2))
    return 0 if all(result["ok"] for result in results) else 1


async def _empty(url: str) -> None:
    database = open_database(url)
    await database.write(lambda c: SQLModel.metadata.drop_all(c))
    await database.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
