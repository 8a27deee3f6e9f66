"""``yizhan menu``: save what an account shows now, and set its menu from a file."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp

from config.clock import Clock
from config.errors import YizhanError
from config.schema import Settings
from gateway.channels import open_session
from gateway.cli import config_parent, settings_from
from gateway.connect import backup_file
from gateway.doctor_account import Platform, fix_for
from gateway.menus import MenuFault, pulled, read_menu
from gateway.mp.client import MpClient
from gateway.transport import Answer

_NO_MENU = 46003


class MenuRefused(YizhanError):
    """The platform said no; the message holds its number and what to do."""

    code = "menu_refused"


def register(subparsers: Any) -> None:
    """Add the command with its two actions."""
    parser = subparsers.add_parser("menu", help="保存或发布账号的菜单")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    pull = actions.add_parser("pull", parents=[config_parent()], help="把平台上现有的菜单和自动回复存成文件")
    pull.add_argument("account", metavar="ACCOUNT", help="账号 id")
    pull.add_argument("file", nargs="?", type=Path, metavar="FILE", help="存到哪里（默认 data/menus/ACCOUNT.yaml）")
    pull.add_argument("--force", action="store_true", help="文件已经有了也覆盖")
    pull.set_defaults(run=_pull)
    publish = actions.add_parser("publish", aliases=["push"], parents=[config_parent()], help="把文件里的菜单发布到平台")
    publish.add_argument("account", metavar="ACCOUNT", help="账号 id")
    publish.add_argument("file", type=Path, metavar="FILE", help="YAML 或 JSON，menu: {button: [...]}")
    publish.set_defaults(run=_publish)


def _pull(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    if _unknown(settings, args.account):
        return 2
    path: Path = args.file or backup_file(settings, args.account)
    if path.exists() and not args.force:
        print(f"{path} 已经有了，没有覆盖；要覆盖加 --force，或写到别的文件", file=sys.stderr)
        return 1
    text = asyncio.run(_fetch(settings, args.account))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"已存到 {path}。放回去：yizhan menu publish {args.account} {path}")
    return 0


def _publish(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    if _unknown(settings, args.account):
        return 2
    try:
        menu = read_menu(args.file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        print(f"读不了 {args.file}：{type(error).__name__}", file=sys.stderr)
        return 2
    except MenuFault as fault:
        print(f"{args.file}：{fault}", file=sys.stderr)
        return 2
    asyncio.run(_create(settings, args.account, menu))
    late = "；已关注的人最迟 24 小时后看到，重新关注立刻看到" if _is_mp(settings, args.account) else ""
    print(f"已发布到 {args.account}（{len(menu['button'])} 个一级菜单{late}）")
    return 0


async def _fetch(settings: Settings, account_id: str) -> str:
    clock = Clock(settings.test_clock)
    async with open_session() as session:
        platform = _platform(settings, account_id, session, clock)
        client = platform.client
        if isinstance(client, MpClient):
            menu, autoreply = await client.get_selfmenu(), await client.get_autoreply()
            if not autoreply.ok and autoreply.errcode == 48001:
                autoreply = Answer("answered", 0)
            _must(platform, autoreply, "读自动回复")
        else:
            menu, autoreply = await client.get_menu(), Answer("answered", 0)
        if menu.errcode == _NO_MENU:
            menu = Answer("answered", 0, data={"button": []})
        _must(platform, menu, "读菜单")
    told = {key: value for key, value in menu.data.items() if key not in ("errcode", "errmsg")}
    replies = {key: value for key, value in autoreply.data.items() if key not in ("errcode", "errmsg")}
    return pulled(account_id, f"{clock.local():%Y-%m-%d %H:%M}", told, replies or None)


async def _create(settings: Settings, account_id: str, menu: dict[str, Any]) -> None:
    async with open_session() as session:
        platform = _platform(settings, account_id, session, Clock(settings.test_clock))
        _must(platform, await platform.client.create_menu(menu), "发布菜单")


def _must(platform: Platform, answer: Answer, what: str) -> None:
    """Raise MenuRefused, with the fix, unless the platform agreed."""
    if answer.ok:
        return
    if answer.errcode is None:
        raise MenuRefused(f"{what}没有成功：连不上平台（{answer.errmsg or answer.transport}）")
    fix = fix_for(platform.account.platform, answer.errcode, answer.errmsg)
    raise MenuRefused(f"{what}没有成功：平台答 {answer.errcode}（{answer.errmsg}）。{fix}")


def _platform(settings: Settings, account_id: str, session: aiohttp.ClientSession, clock: Clock) -> Platform:
    account = settings.account(account_id)
    if account is None:
        raise MenuRefused(f"设置里没有账号 {account_id}")
    return Platform.open(account, session, clock)


def _unknown(settings: Settings, account_id: str) -> bool:
    if settings.account(account_id) is not None:
        return False
    known = "、".join(account.id for tenant in settings.tenants for account in tenant.accounts) or "（一个也没有）"
    print(f"设置里没有账号 {account_id}；有的是：{known}", file=sys.stderr)
    return True


def _is_mp(settings: Settings, account_id: str) -> bool:
    account = settings.account(account_id)
    return account is not None and account.platform == "mp"
