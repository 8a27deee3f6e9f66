"""``yizhan menu``: save what an account shows now, and set its menu from a file."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from config.clock import Clock
from config.errors import YizhanError
from gateway import cli_texts as texts
from gateway.channels import open_session
from gateway.cli_start import CommandEnds, account_from, config_parent, settings_from
from gateway.connect import backup_file
from gateway.doctor_account import Account, Platform, fix_for
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
    account = account_from(settings, args.account)
    path: Path = args.file or backup_file(settings, args.account)
    if path.exists() and not args.force:
        raise CommandEnds(texts.MENU_EXISTS.format(path=path), 1)
    text = asyncio.run(_fetch(account, Clock(settings.test_clock)))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    print(texts.MENU_SAVED.format(path=path, account=account.id))
    return 0


def _publish(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    account = account_from(settings, args.account)
    try:
        menu = read_menu(args.file.read_text("utf-8-sig"))
    except UnicodeDecodeError:
        raise CommandEnds(texts.MENU_UNREADABLE.format(file=args.file, reason=texts.MENU_NO_TEXT), 2) from None
    except OSError as error:
        raise CommandEnds(texts.MENU_UNREADABLE.format(file=args.file, reason=error.strerror), 2) from None
    except MenuFault as fault:
        raise CommandEnds(f"{args.file}：{fault}", 2) from None
    asyncio.run(_create(account, Clock(settings.test_clock), menu))
    late = texts.MENU_LATE if account.platform == "mp" else ""
    print(texts.MENU_PUBLISHED.format(account=account.id, count=len(menu["button"]), late=late))
    return 0


async def _fetch(account: Account, clock: Clock) -> str:
    async with open_session() as session:
        platform = Platform.open(account, session, clock)
        client = platform.client
        if isinstance(client, MpClient):
            menu, autoreply = await client.get_selfmenu(), await client.get_autoreply()
            if not autoreply.ok and autoreply.errcode == 48001:
                autoreply = Answer("answered", 0)
            _must(platform, autoreply, texts.MENU_READ_REPLIES)
        else:
            menu, autoreply = await client.get_menu(), Answer("answered", 0)
        if menu.errcode == _NO_MENU:
            menu = Answer("answered", 0, data={"button": []})
        _must(platform, menu, texts.MENU_READ)
    told = {key: value for key, value in menu.data.items() if key not in ("errcode", "errmsg")}
    replies = {key: value for key, value in autoreply.data.items() if key not in ("errcode", "errmsg")}
    return pulled(account.id, f"{clock.local():%Y-%m-%d %H:%M}", told, replies or None)


async def _create(account: Account, clock: Clock, menu: dict[str, Any]) -> None:
    async with open_session() as session:
        platform = Platform.open(account, session, clock)
        _must(platform, await platform.client.create_menu(menu), texts.MENU_PUBLISH)


def _must(platform: Platform, answer: Answer, what: str) -> None:
    """Raise MenuRefused, with the fix, unless the platform agreed."""
    if answer.ok:
        return
    if answer.errcode is None:
        raise MenuRefused(texts.MENU_UNREACHABLE.format(what=what, reason=answer.errmsg or answer.transport))
    fix = fix_for(platform.account.platform, answer.errcode, answer.errmsg)
    raise MenuRefused(texts.MENU_REFUSED.format(what=what, errcode=answer.errcode, errmsg=answer.errmsg, fix=fix))
