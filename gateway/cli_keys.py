"""``yizhan keys``: API keys for programs that push; a key's text is shown once."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from typing import Any

from config.clock import Clock
from config.database import Database, open_database
from config.errors import SettingsError
from config.schema import Settings
from gateway import keys
from gateway.cli import config_parent, settings_from
from gateway.keys import ApiKey
from gateway.migrate import revision_of
from gateway.push_request import parse_moment

_SPAN = re.compile(r"(\d+)([dh])")
_STATES = {"active": "有效", "expired": "已过期", "revoked": "已吊销"}


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("keys", help="推送接口的 API 密钥")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", parents=[config_parent()], help="生成一把密钥，只显示一次")
    create.add_argument("--tenant", metavar="ID", help="租户（只有一个租户时可省略）")
    create.add_argument("--scope", action="append", choices=keys.SCOPES, help="权限，可重复（默认 push；群发全员另需 push_all）")
    create.add_argument("--account", action="append", metavar="ID", help="只能用这个账号，可重复（默认租户的全部账号）")
    create.add_argument("--name", default="", help="给人看的名字，例如 库存告警")
    create.add_argument("--expires", metavar="WHEN", help="30d、12h，或带时区的时刻（默认不过期）")
    create.add_argument("--rate", type=int, default=keys.DEFAULT_RATE, metavar="N", help="每分钟接收者上限（默认 6000）")
    create.set_defaults(run=lambda args: asyncio.run(_run(args, _create)))
    listing = actions.add_parser("list", parents=[config_parent()], help="列出密钥（只有开头几位）")
    listing.add_argument("--tenant", metavar="ID", help="只看这个租户")
    listing.set_defaults(run=lambda args: asyncio.run(_run(args, _list)))
    revoke = actions.add_parser("revoke", parents=[config_parent()], help="立即吊销")
    revoke.add_argument("prefix", metavar="PREFIX", help="密钥的开头（list 里显示的）或编号")
    revoke.set_defaults(run=lambda args: asyncio.run(_run(args, _revoke)))


async def _run(args: argparse.Namespace, action: Any) -> int:
    settings = settings_from(args)
    database = open_database(settings.sqlalchemy_url)
    try:
        if not await database.read(revision_of):
            print("这里还没有数据：先启动一次（yizhan up 或 yizhan migrate）", file=sys.stderr)
            return 1
        return int(await action(args, settings, database, Clock(settings.test_clock)))
    finally:
        await database.close()


async def _create(args: argparse.Namespace, settings: Settings, database: Database, clock: Clock) -> int:
    tenant_id = args.tenant or (settings.tenants[0].id if len(settings.tenants) == 1 else None)
    tenant = settings.tenant(tenant_id) if tenant_id else None
    if tenant is None:
        names = "、".join(tenant.id for tenant in settings.tenants) or "（一个也没有）"
        raise SettingsError(f"--tenant 要填设置里的租户：{names}")
    accounts = {account.id for account in tenant.accounts}
    unknown = [account for account in args.account or () if account not in accounts]
    if unknown:
        raise SettingsError(f"租户 {tenant.id} 没有账号 {'、'.join(unknown)}；有：{'、'.join(sorted(accounts))}")
    if args.rate < 1:
        raise SettingsError("--rate 至少是 1")
    now = clock.now_ms()
    scopes = list(dict.fromkeys(args.scope or ["push"]))
    if "push" not in scopes:
        scopes.insert(0, "push")
    expires = expiry(args.expires, now)
    text, key = await database.write(
        lambda c: keys.create(
            c,
            tenant_id=tenant.id,
            name=args.name,
            scopes=scopes,
            accounts=args.account,
            now_ms=now,
            expires_at_ms=expires,
            recipients_per_minute=args.rate,
        )
    )
    print(text)
    print(f"请现在保存，以后不再显示。开头 {key.prefix}，{_limits(key, clock)}", file=sys.stderr)
    return 0


async def _list(args: argparse.Namespace, _settings: Settings, database: Database, clock: Clock) -> int:
    found = await database.read(lambda c: keys.listing(c, tenant_id=args.tenant))
    now = clock.now_ms()
    for key in found:
        used = "从未使用" if key.last_used_ms is None else f"最近使用 {clock.local(key.last_used_ms):%Y-%m-%d %H:%M}"
        print(
            f"{key.prefix}  {_STATES[key.state(now)]}  {key.tenant_id}  {key.name or '（无名）'}  {_limits(key, clock)}，{used}"
        )
    if not found:
        print("还没有密钥：yizhan keys create")
    return 0


async def _revoke(args: argparse.Namespace, _settings: Settings, database: Database, clock: Clock) -> int:
    everything = await database.read(keys.listing)
    found = [key for key in everything if args.prefix in (key.id, key.prefix) or key.prefix.startswith(args.prefix)]
    exact = [key for key in found if args.prefix in (key.id, key.prefix)] or found
    if len(exact) != 1:
        told = (
            "没有这样的密钥" if not exact else f"有 {len(exact)} 把密钥以此开头，请写全：{'、'.join(key.prefix for key in exact)}"
        )
        print(told, file=sys.stderr)
        return 1
    done = await database.write(lambda c: keys.revoke(c, exact[0].id, clock.now_ms()))
    print(f"{exact[0].prefix} {'已吊销，立即生效' if done else '早已吊销'}")
    return 0


def expiry(text: str | None, now_ms: int) -> int | None:
    """``30d``, ``12h`` or a moment with a zone as epoch milliseconds. Raises SettingsError."""
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    try:
        moment = now_ms + int(span[1]) * (86_400_000 if span[2] == "d" else 3_600_000) if span else parse_moment(text)
    except ValueError:
        raise SettingsError("--expires 写 30d、12h，或带时区的时刻，如 2026-12-31T23:59:59+08:00") from None
    if moment <= now_ms:
        raise SettingsError("--expires 已经过去")
    return moment


def _limits(key: ApiKey, clock: Clock) -> str:
    accounts = "全部账号" if key.accounts is None else "、".join(key.accounts)
    until = "不过期" if key.expires_at_ms is None else f"到 {clock.local(key.expires_at_ms):%Y-%m-%d %H:%M}"
    return f"权限 {'、'.join(key.scopes)}，{accounts}，{until}，每分钟 {key.recipients_per_minute} 人"
