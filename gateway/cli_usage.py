"""``yizhan usage``: turns, tokens and cost by day, route and person."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from gateway import cli_texts as texts
from gateway.cli_start import CommandEnds, config_parent, settings_from


def register(subparsers: Any) -> None:
    """Adds ``usage``."""
    parser = subparsers.add_parser("usage", parents=[config_parent()], help="模型用量和费用：按日期、线路、人")
    parser.add_argument("--days", type=int, default=30, metavar="N", help="最近几天（默认 30）")
    parser.add_argument(
        "--by", default="day,route", metavar="KEYS", help="按什么汇总：day、route、person，逗号分隔（默认 day,route）"
    )
    parser.add_argument("--tenant", metavar="ID", help="只看这个租户")
    parser.add_argument("--json", action="store_true", help="输出 JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0, or 2 for keys, days or a tenant that make no sense."""
    keys = [key.strip() for key in args.by.split(",") if key.strip()]
    if not keys or any(key not in texts.USAGE_NAMES for key in keys) or args.days < 1:
        raise CommandEnds(texts.USAGE_BAD, 2)
    settings = settings_from(args)
    rows = asyncio.run(_load(settings, keys, args.days, args.tenant))
    if not rows and args.tenant is not None and settings.tenant(args.tenant) is None:  # one that is gone keeps its usage
        raise CommandEnds(texts.TOOL_NO_TENANT.format(tenant=args.tenant), 2)
    if args.json:
        print(json.dumps([_as_dict(keys, row) for row in rows], ensure_ascii=False))
    else:
        print("\n".join(_table(keys, rows)))
    return 0


async def _load(settings: Any, keys: list[str], days: int, tenant: str | None) -> list[Any]:
    from typing import cast

    from sqlalchemy import inspect

    from agent.usage import By, usage
    from config.clock import Clock
    from config.database import open_database

    clock = Clock(settings.test_clock)
    database = open_database(settings.sqlalchemy_url)
    since_ms = clock.now_ms() - days * 86_400_000
    try:
        if not await database.read(lambda connection: inspect(connection).has_table("turn")):
            return []
        return await database.read(lambda connection: usage(connection, clock, cast("list[By]", keys), since_ms, tenant))
    finally:
        await database.close()


def _as_dict(keys: list[str], row: Any) -> dict[str, Any]:
    return {
        **dict(zip(keys, row.key, strict=True)),
        "turns": row.turns,
        "failed": row.failed,
        "model_calls": row.model_calls,
        "tool_calls": row.tool_calls,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "cost": round(row.cost, 6),
        "model_ms": row.model_ms,
    }


def _table(keys: list[str], rows: list[Any]) -> list[str]:
    if not rows:
        return [texts.USAGE_NONE]
    lines = [[*(texts.USAGE_NAMES[key] for key in keys), *texts.USAGE_COLUMNS]]
    for row in rows:
        lines.append([*row.key, *_numbers(row)])
    total = type(rows[0])(key=())
    for name in ("turns", "failed", "model_calls", "tool_calls", "prompt_tokens", "completion_tokens", "cost"):
        setattr(total, name, sum(getattr(row, name) for row in rows))
    lines.append([texts.USAGE_TOTAL, *[""] * (len(keys) - 1), *_numbers(total)])
    widths = [max(_width(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _numbers(row: Any) -> list[str]:
    counts = (row.turns, row.failed, row.model_calls, row.tool_calls, row.prompt_tokens, row.completion_tokens)
    return [*(str(count) for count in counts), f"{row.cost:.4f}"]


def _width(text: str) -> int:
    """Columns a text takes in a terminal: two a Chinese character."""
    return sum(2 if ord(char) >= 0x1100 else 1 for char in text)
