"""``yizhan keys``: API keys for programs that push; a key's text is shown once."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from typing import Any

from config.clock import Clock
from config.database import Database
from config.errors import SettingsError
from config.schema import Settings
from gateway import cli_texts as texts
from gateway import keys
from gateway.cli_start import CommandEnds, config_parent, settings_from, stored_data
from gateway.keys import ApiKey
from gateway.push_request import parse_moment

_SPAN = re.compile(r"(\d+)([dh])")


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
    async with stored_data(settings) as database:
        return int(await action(args, settings, database, Clock(settings.test_clock)))


async def _create(args: argparse.Namespace, settings: Settings, database: Database, clock: Clock) -> int:
    tenant_id = args.tenant or (settings.tenants[0].id if len(settings.tenants) == 1 else None)
    tenant = settings.tenant(tenant_id) if tenant_id else None
    if tenant is None:
        names = "、".join(tenant.id for tenant in settings.tenants) or texts.KEY_NO_TENANT
        raise SettingsError(texts.KEY_TENANT.format(names=names))
    accounts = {account.id for account in tenant.accounts}
    unknown = [account for account in args.account or () if account not in accounts]
    if unknown:
        told = {"unknown": "、".join(unknown), "known": "、".join(sorted(accounts))}
        raise SettingsError(texts.KEY_ACCOUNT.format(tenant=tenant.id, **told))
    if args.rate < 1:
        raise SettingsError(texts.KEY_RATE)
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
    print(texts.KEY_SAVE.format(prefix=key.prefix, limits=_limits(key, clock)), file=sys.stderr)
    return 0


async def _list(args: argparse.Namespace, _settings: Settings, database: Database, clock: Clock) -> int:
    found = await database.read(lambda c: keys.listing(c, tenant_id=args.tenant))
    now = clock.now_ms()
    for key in found:
        line = texts.KEY_LINE.format(
            prefix=key.prefix,
            state=texts.KEY_STATES[key.state(now)],
            tenant=key.tenant_id,
            name=key.name or texts.KEY_NO_NAME,
            limits=_limits(key, clock),
            used=texts.KEY_NEVER_USED if key.last_used_ms is None else texts.KEY_USED.format(when=_when(clock, key.last_used_ms)),
        )
        print(line)
    if not found:
        print(texts.KEY_NONE)
    return 0


async def _revoke(args: argparse.Namespace, _settings: Settings, database: Database, clock: Clock) -> int:
    everything = await database.read(keys.listing)
    found = [key for key in everything if args.prefix in (key.id, key.prefix) or key.prefix.startswith(args.prefix)]
    exact = [key for key in found if args.prefix in (key.id, key.prefix)] or found
    if len(exact) != 1:
        several = texts.KEY_SEVERAL.format(count=len(exact), prefixes="、".join(key.prefix for key in exact))
        raise CommandEnds(several if exact else texts.KEY_UNKNOWN, 1)
    done = await database.write(lambda c: keys.revoke(c, exact[0].id, clock.now_ms()))
    print((texts.KEY_REVOKED if done else texts.KEY_REVOKED_BEFORE).format(prefix=exact[0].prefix))
    return 0


def expiry(text: str | None, now_ms: int) -> int | None:
    """``30d``, ``12h`` or a moment with a zone as epoch milliseconds. Raises SettingsError."""
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    try:
        moment = now_ms + int(span[1]) * (86_400_000 if span[2] == "d" else 3_600_000) if span else parse_moment(text)
    except ValueError:
        raise SettingsError(texts.KEY_EXPIRES_FORM) from None
    if moment <= now_ms:
        raise SettingsError(texts.KEY_EXPIRES_PAST)
    return moment


def _limits(key: ApiKey, clock: Clock) -> str:
    accounts = texts.KEY_ALL_ACCOUNTS if key.accounts is None else "、".join(key.accounts)
    until = texts.KEY_NO_EXPIRY if key.expires_at_ms is None else texts.KEY_UNTIL.format(when=_when(clock, key.expires_at_ms))
    rate = key.recipients_per_minute
    return texts.KEY_LIMITS.format(scopes="、".join(key.scopes), accounts=accounts, until=until, rate=rate)


def _when(clock: Clock, at_ms: int) -> str:
    return f"{clock.local(at_ms):%Y-%m-%d %H:%M}"
