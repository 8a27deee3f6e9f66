"""``yizhan connect``: guide an account's first connection and tick off each step as it happens."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from config.clock import Clock
from config.database import Database, open_database
from config.schema import MpAccount, Settings, WecomAccount
from config.settings import settings_file
from gateway import operator_texts as texts
from gateway.account_file import complete_account
from gateway.channels import open_session
from gateway.cli_start import account_from, config_parent, settings_from
from gateway.connect import Facts, Step, look_inside, look_outside, steps

_INSIDE_S = 1.0
_OUTSIDE_EVERY = 10
"""The platform and the public URL are visited at every tenth look: the trusted IP takes a minute anyway."""


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("connect", parents=[config_parent()], help="一步一步接上一个账号，完成一步打一个勾")
    parser.add_argument("account", metavar="ACCOUNT", help="账号 id，例如 wecom-main")
    parser.add_argument("--once", action="store_true", help="只看一次现在做到哪一步，不等待")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="最多等这么久（默认一直等）")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Guide and watch; 0 when every step is done, 1 when some are left."""
    file = settings_file(args.config)
    if file is not None:
        _complete(file, args.account)
    settings = settings_from(args)
    account = account_from(settings, args.account)
    print(texts.CONNECT_TITLE.format(account=account.id, platform=texts.PLATFORM_NAMES[account.platform]) + "\n")
    try:
        return asyncio.run(_guide(settings, account, once=args.once, timeout_s=args.timeout))
    except KeyboardInterrupt:
        print()
        return 1


def _complete(file: Path, account_id: str) -> None:
    made = complete_account(file, account_id)
    if made:
        print(texts.CONNECT_MADE.format(file=file, names="、".join(made)))
        print(texts.CONNECT_RESTART + "\n")


async def _guide(settings: Settings, account: WecomAccount | MpAccount, *, once: bool, timeout_s: float | None) -> int:
    database = open_database(settings.sqlalchemy_url)
    try:
        async with open_session() as session:
            watch = _Watch(settings, account, database, session)
            left = await watch.look(outside=True)
            print(render(watch.steps))
            if once or not left:
                return _end(left)
            print(f"\n{texts.CONNECT_WAITING}", flush=True)
            async with asyncio.timeout(timeout_s):
                left = await watch.until_done()
            return _end(left)
    except TimeoutError:
        return _end(len([step for step in watch.steps if not step.done]))
    finally:
        await database.close()


class _Watch:
    """Looks again and again, and prints each step when it becomes done or its trouble changes."""

    def __init__(
        self, settings: Settings, account: WecomAccount | MpAccount, database: Database, session: aiohttp.ClientSession
    ) -> None:
        self._settings, self._account, self._database, self._session = settings, account, database, session
        self._clock = Clock(settings.test_clock)
        self._facts = Facts()
        self.steps: list[Step] = []

    async def look(self, *, outside: bool) -> int:
        """Look once; returns how many steps are left."""
        if outside:
            self._facts = await look_outside(self._settings, self._account, self._session, self._clock, self._facts)
        self._facts = await look_inside(self._settings, self._account, self._database, self._facts)
        self.steps = steps(self._settings, self._account, self._facts)
        return sum(1 for step in self.steps if not step.done)

    async def until_done(self) -> int:
        """Look every second until nothing is left."""
        number = 0
        while True:
            before = {step.name: step for step in self.steps}
            await asyncio.sleep(_INSIDE_S)
            number += 1
            left = await self.look(outside=number % _OUTSIDE_EVERY == 0)
            for step in self.steps:
                _print_change(before[step.name], step)
            if not left:
                return 0


def render(found: list[Step]) -> str:
    """The checklist: what is done in one line, what is to do with how, what stands in the way."""
    lines = []
    for number, step in enumerate(found, 1):
        lines.append(f"[{'✓' if step.done else ' '}] {number}. {step.title}")
        if not step.done:
            lines += [f"      {step.how}"] if step.how else []
            lines += [f"      ! {step.trouble}"] if step.trouble else []
    return "\n".join(lines)


def _print_change(before: Step, now: Step) -> None:
    if now.done and not before.done:
        print(f"[✓] {now.title}", flush=True)
    elif not now.done and now.trouble and now.trouble != before.trouble:
        print(f"    ! {now.title}：{now.trouble}", flush=True)
    elif not now.done and now.how != before.how:
        print(f"[ ] {now.title}\n      {now.how}", flush=True)


def _end(left: int) -> int:
    print("\n" + (texts.CONNECT_LEFT.format(count=left) if left else texts.CONNECT_DONE))
    return 1 if left else 0
