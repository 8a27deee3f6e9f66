"""``yizhan models check|list``: which model routes are set, and what each really can do."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from config.schema import ModelRoute, Settings
from gateway import model_texts as texts


def register(subparsers: Any) -> None:
    """Adds ``models check`` and ``models list``."""
    from gateway.cli_start import config_parent

    parser = subparsers.add_parser("models", help="查看和检查模型线路", description="查看和检查设置里的模型线路。")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    shown = actions.add_parser("list", parents=[config_parent()], help="列出线路（不联网）")
    shown.add_argument("--json", action="store_true", help="输出 JSON")
    shown.set_defaults(run=run_list)
    check = actions.add_parser("check", parents=[config_parent()], help="逐条线路试一试：通不通、快不快、会不会用工具")
    check.add_argument("names", metavar="ROUTE", nargs="*", help="只检查这些线路（默认全部）")
    check.add_argument("--timeout", type=float, default=20.0, metavar="S", help="每次请求最多等几秒（默认 20）")
    check.add_argument("--json", action="store_true", help="输出 JSON")
    check.set_defaults(run=run_check)


def run_list(args: argparse.Namespace) -> int:
    """Always 0: an empty list is a setting, too."""
    from gateway.cli_start import settings_from

    settings = settings_from(args)
    rows = [_row(settings, route) for route in settings.models]
    if args.json:
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    if not rows:
        print(texts.NONE)
    for row in rows:
        allowed = texts.EXTERNAL_FOR.format(tenants="、".join(row["tenants"]) or texts.NOBODY)
        where = texts.LOCAL if row["local"] else allowed
        print(texts.LISTED.format(**{**row, "where": where, "purposes": "、".join(row["purposes"])}))
    return 0


def run_check(args: argparse.Namespace) -> int:
    """0 when every route does what its purposes need, 1 when one does not, 2 for an unknown route name."""
    from config.clock import Clock
    from gateway.cli_start import settings_from

    settings = settings_from(args)
    if not args.timeout > 0:
        print(texts.TIMEOUT)
        return 2
    unknown = set(args.names) - {route.name for route in settings.models}
    if unknown:
        print(texts.UNKNOWN.format(names="、".join(sorted(unknown))))
        return 2
    routes = [route for route in settings.models if not args.names or route.name in args.names]
    checks = asyncio.run(_check_all(routes, Clock(), args.timeout))
    if args.json:
        print(json.dumps([check.as_dict() for check in checks], ensure_ascii=False))
    elif not checks:
        print(texts.NONE)
    else:
        from gateway.model_report import lines

        for check, route in zip(checks, routes, strict=True):
            print("\n".join(lines(check, _shown(route.base_url))))
    return 0 if all(check.usable for check in checks) else 1


async def _check_all(routes: list[ModelRoute], clock: Any, timeout_s: float) -> list[Any]:
    from agent.llm.check import check_route

    return list(await asyncio.gather(*(check_route(route, clock, timeout_s=timeout_s) for route in routes)))


def _row(settings: Settings, route: ModelRoute) -> dict[str, Any]:
    allowed = [tenant.id for tenant in settings.tenants if route.local or tenant.allow_external_models]
    return {
        "name": route.name,
        "model": route.model,
        "base_url": _shown(route.base_url),
        "local": route.local,
        "purposes": list(route.purposes),
        "tenants": allowed,
    }


def _shown(url: str) -> str:
    """The address without what may be a secret in it: a password, a key in the query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", "")) + ("?…" if parts.query else "")
