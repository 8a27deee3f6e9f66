"""``yizhan doctor``: check every account end to end and print what to do."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from config.clock import Clock
from config.database import open_database
from config.settings import load
from gateway.cli_start import config_parent, no_account
from gateway.doctor import examine
from gateway.doctor_report import Report
from gateway.doctor_system import as_json
from gateway.embedded import redis_url_of
from gateway.redis_links import open_redis


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("doctor", parents=[config_parent()], help="逐个账号检查，并告诉你怎么处理")
    parser.add_argument("accounts", nargs="*", metavar="ACCOUNT", help="只检查这些账号（默认全部）")
    parser.add_argument("--public-url", metavar="URL", help="用这个外部地址检查回调（默认 http.public_url）")
    parser.add_argument("--json", action="store_true", help="输出 JSON，给脚本用")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 when nothing failed, 1 when something did, 2 for an unknown account."""
    loaded = load(args.config)
    known = {account.id for tenant in loaded.settings.tenants for account in tenant.accounts}
    unknown = [account for account in args.accounts if account not in known]
    if unknown:
        raise no_account(loaded.settings, "、".join(unknown))
    report = asyncio.run(_examine(args, loaded.settings, loaded.warnings))
    print(as_json(report.as_data()) if args.json else report.for_terminal())
    return 0 if report.healthy else 1


async def _examine(args: argparse.Namespace, settings: Any, warnings: tuple[str, ...]) -> Report:
    database = open_database(settings.sqlalchemy_url)
    redis = open_redis(redis_url_of(settings))
    try:
        return await examine(
            settings,
            database,
            redis,
            Clock(settings.test_clock),
            accounts=args.accounts or None,
            warnings=warnings,
            public_url=args.public_url,
        )
    finally:
        await redis.aclose()
        await database.close()
