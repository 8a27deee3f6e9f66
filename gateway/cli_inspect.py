"""``yizhan inspect``: prints what decrypted payloads normalize to, one JSON object a line."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from config.clock import Clock


def register(subparsers: Any) -> None:
    """Adds ``inspect ACCOUNT FILE...``."""
    from gateway.cli_start import config_parent

    parser = subparsers.add_parser(
        "inspect",
        parents=[config_parent()],
        help="看解密后的回调报文会被理解成什么（每个文件一行 JSON）",
        description="看解密后的回调报文（XML 或 JSON）会被理解成什么：每个文件一行 JSON，有一个被拒绝则退出码为 1。",
    )
    parser.add_argument("account", metavar="ACCOUNT", help="设置里的账号 id")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="解密后的报文文件")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 when every payload normalizes, 1 when one is refused or unreadable, 2 for an unknown account."""
    from gateway.cli_start import no_account, settings_from
    from gateway.inspect import inspect_file

    settings = settings_from(args)
    account, tenant = settings.account(args.account), settings.tenant_of(args.account)
    if account is None or tenant is None:
        raise no_account(settings, args.account)
    now_ms = Clock(settings.test_clock).now_ms()
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    refused = False
    for path in args.files:
        line = inspect_file(account, tenant.id, path, received_at_ms=now_ms)
        refused = refused or "error" in line
        print(json.dumps(line, ensure_ascii=ascii_only))
    return 1 if refused else 0
