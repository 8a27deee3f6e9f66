"""``yizhan outbox``: what waits, why, sending it again, dropping it."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, and_

from config.clock import Clock
from config.schema import Settings
from gateway import cli_texts as told
from gateway import outbox_admin, texts
from gateway.cli_start import CommandEnds, config_parent, settings_from, stored_data
from gateway.outbox_states import ROWS

T = TypeVar("T")


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("outbox", help="发件箱：查看、重发、丢弃")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", parents=[config_parent()], help="没有发出的消息和原因")
    listing.add_argument(
        "--state", action="append", choices=[*texts.OUTBOX_STATES], help="只看这个状态，可重复（默认：全部未完成）"
    )
    listing.add_argument("--account", metavar="ID", help="只看这个账号")
    listing.add_argument("--limit", type=int, default=50, metavar="N", help="最多几行（默认 50）")
    listing.add_argument("--full-ids", action="store_true", help="显示完整的人员 id（默认遮住中间）")
    listing.add_argument("--json", action="store_true", help="输出 JSON")
    listing.set_defaults(run=_list)
    for name, states, text, function in (
        ("retry", outbox_admin.RETRIED, "重新发送（失败、过期、暂存、结果未知的）", _retry),
        ("drop", outbox_admin.DROPPED, "丢弃，不再发送", _drop),
    ):
        action = actions.add_parser(name, parents=[config_parent()], help=text)
        action.add_argument("rows", nargs="*", type=int, metavar="行号", help="outbox list 里的行号")
        action.add_argument("--state", choices=states, help="这个状态的全部")
        action.add_argument("--account", metavar="ID", help="只限这个账号（和 --state 一起用）")
        action.set_defaults(run=function)


def _list(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    states = tuple(args.state or outbox_admin.OPEN)

    def look(connection: Connection) -> tuple[dict[str, int], list[outbox_admin.Line]]:
        lines = outbox_admin.listing(
            connection, states, account_id=args.account, limit=max(1, args.limit), full_ids=args.full_ids
        )
        return outbox_admin.counts(connection, args.account), lines

    counts, lines = asyncio.run(_with_database(settings, look, write=False))
    if args.json:
        print(json.dumps({"counts": counts, "rows": [asdict(line) for line in lines]}, ensure_ascii=False, indent=2))
        return 0
    print("，".join(f"{texts.OUTBOX_STATES.get(state, state)} {count}" for state, count in counts.items()) or told.OUTBOX_NOTHING)
    clock = Clock(settings.test_clock)
    for line in lines:
        print(_shown(line, clock))
    return 0


def _shown(line: outbox_admin.Line, clock: Clock) -> str:
    state = texts.OUTBOX_STATES.get(line.status, line.status)
    due = "" if line.due_at_ms is None else told.OUTBOX_DUE.format(when=_when(clock, line.due_at_ms))
    return told.OUTBOX_LINE.format(
        seq=line.seq,
        made=_when(clock, line.created_at_ms),
        state=state,
        account=line.account_id,
        who=line.who,
        kind=line.kind,
        part=line.part,
        attempts=line.attempts,
        due=due,
        reason=f"  {line.reason}" if line.reason else "",
    )


def _when(clock: Clock, at_ms: int) -> str:
    return f"{clock.local(at_ms):%m-%d %H:%M:%S}"


def _retry(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    now = Clock(settings.test_clock).now_ms()
    return _change(args, settings, outbox_admin.RETRIED, lambda c, where: outbox_admin.retry(c, where, now), told.OUTBOX_RETRIED)


def _drop(args: argparse.Namespace) -> int:
    return _change(args, settings_from(args), outbox_admin.DROPPED, outbox_admin.drop, told.OUTBOX_DROPPED)


def _change(
    args: argparse.Namespace,
    settings: Settings,
    states: tuple[str, ...],
    function: Callable[[Connection, ColumnElement[bool]], int],
    done: str,
) -> int:
    if bool(args.rows) == bool(args.state):
        raise CommandEnds(told.OUTBOX_WHICH, 2)
    conditions = [ROWS.c.seq.in_(args.rows)] if args.rows else [ROWS.c.status == args.state]
    if args.account:
        conditions.append(ROWS.c.account_id == args.account)
    count = asyncio.run(_with_database(settings, lambda c: function(c, and_(*conditions)), write=True))
    print(done.format(count=count))
    if args.rows and count < len(set(args.rows)):
        names = "、".join(texts.OUTBOX_STATES[state] for state in states)
        raise CommandEnds(told.OUTBOX_REST.format(count=len(set(args.rows)) - count, states=names), 1)
    return 0


async def _with_database(settings: Settings, fn: Callable[[Connection], T], *, write: bool) -> T:
    """Run one transaction."""
    async with stored_data(settings) as database:
        return await (database.write(fn) if write else database.read(fn))
