"""``yizhan init``: write a first settings file with generated tokens and keys."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gateway import cli_texts as texts
from gateway.account_file import FirstFile, create, render_first_file
from gateway.cli_start import config_parent


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "init", parents=[config_parent()], help="写一份起步的设置文件（自动生成 Token 和 EncodingAESKey）"
    )
    parser.add_argument("--platform", choices=("wecom", "mp", "both"), default="wecom", help="接哪个平台（默认 wecom）")
    parser.add_argument("--tenant", default="default", metavar="ID", help="租户 id（默认 default）")
    parser.add_argument("--corp-id", metavar="ID", help="企业微信的企业ID")
    parser.add_argument("--agent-id", type=int, metavar="N", help="自建应用的 AgentId")
    parser.add_argument("--app-id", metavar="ID", help="公众号的 AppID")
    parser.add_argument("--public-url", metavar="URL", help="外面访问得到的地址，例如 https://bot.example.com")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file (``--config`` or ./yizhan.yaml); an existing one is never touched."""
    path: Path = args.config or Path("yizhan.yaml")
    wanted = FirstFile(
        tenant=args.tenant,
        wecom=args.platform in ("wecom", "both"),
        mp=args.platform in ("mp", "both"),
        corp_id=args.corp_id,
        agent_id=args.agent_id,
        app_id=args.app_id,
        public_url=args.public_url,
    )
    text = render_first_file(wanted)
    _check(text, path)
    create(path, text)
    accounts = [name for name, there in (("wecom-main", wanted.wecom), ("mp-main", wanted.mp)) if there]
    connect = "，再 ".join(f"yizhan connect {account}" for account in accounts)
    print(texts.INIT_NEXT.format(path=path, missing="、".join(_missing(wanted)), connect=connect))
    return 0


def _check(text: str, path: Path) -> None:
    """Refuse option values that would not load, before anything is written."""
    from config.errors import SettingsError
    from config.settings_check import validate
    from config.yaml_source import parse_yaml

    try:
        validate(parse_yaml(text, path.name, {}))
    except SettingsError as error:
        raise SettingsError(texts.INIT_REFUSED.format(error=error)) from None


def _missing(wanted: FirstFile) -> list[str]:
    missing = []
    if wanted.wecom:
        missing += [told for name, told in texts.INIT_MISSING.items() if not getattr(wanted, name, None)]
    if wanted.mp:
        missing += [told for name, told in texts.INIT_MISSING_MP.items() if not getattr(wanted, name, None)]
    return missing + ([] if wanted.public_url else ["http.public_url"])
