"""Commands that run processes: up, serve, worker, migrate, demo."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.errors import DatabaseBroken, DatabaseNewer, SettingsError
from gateway import up_texts
from gateway.cli_start import config_parent, settings_from
from gateway.cli_texts import SETTINGS_BAD

if TYPE_CHECKING:
    from config.schema import Settings

Subparsers = Any


def register(subparsers: Subparsers) -> None:
    """Add the five commands."""
    parent = config_parent()
    up = subparsers.add_parser("up", parents=[parent], help="在这台机器上运行全部（加 --demo 先试用）")
    up.add_argument("--demo", action="store_true", help="带模拟器的演示：不需要任何真实账号")
    up.add_argument("--data-dir", type=Path, metavar="DIR", help="数据目录（默认设置里的 data_dir，即 ./data）")
    up.add_argument("--port", type=int, help="回调端口（http.port），0 表示任选")
    up.add_argument("--admin-port", type=int, help="运维端口（admin.port），0 表示任选")
    up.add_argument("--sim-port", type=int, help="模拟器端口（仅 --demo，默认 8090），0 表示任选")
    up.add_argument("--verbose", action="store_true", help="各进程日志直接打到终端，不写文件")
    up.set_defaults(run=_up)
    serve = subparsers.add_parser("serve", parents=[parent], help="运行网关进程（回调、推送、投递）")
    serve.add_argument("--prestart", action="store_true", help=argparse.SUPPRESS)
    serve.set_defaults(run=_serve)
    worker = subparsers.add_parser("worker", parents=[parent], help="运行后台工作进程")
    worker.set_defaults(run=_worker)
    migrate = subparsers.add_parser("migrate", parents=[parent], help="把数据库升级到当前版本")
    migrate.set_defaults(run=_migrate)
    demo = subparsers.add_parser("demo", parents=[parent], help="在终端里演示几段对话")
    demo.add_argument("--data-dir", type=Path, metavar="DIR", help="演示的数据目录（默认用正在运行的演示）")
    demo.set_defaults(run=_demo)


def _up(args: argparse.Namespace) -> int:
    from gateway.prestart import Prestarted

    prestarted = Prestarted()
    try:
        from gateway.cli_up_run import run_up

        return run_up(args, prestarted)
    finally:
        prestarted.end()


def _serve(args: argparse.Namespace) -> int:
    from gateway.app import preload, serve

    if args.prestart:
        from config.settings import take_environment
        from gateway.prestart import wait_for_settings

        preload()
        told = wait_for_settings()
        if told is None:
            return 0
        take_environment(told["environ"])
        args.config = None if told["config"] is None else Path(str(told["config"]))
    return _run_process(args, serve)


def _worker(args: argparse.Namespace) -> int:
    from gateway.worker import work

    return _run_process(args, work)


def _run_process(args: argparse.Namespace, main: Callable[[Settings, asyncio.Event], Awaitable[None]]) -> int:
    """Migrate, then run until SIGTERM or SIGINT. 2 when starting again would not help, 1 for other failures."""
    from config.logging import setup_logging
    from config.settings import load_settings
    from gateway.embedded import tighten
    from gateway.migrate import upgrade

    setup_logging("WARNING")
    settings = load_settings(args.config)
    setup_logging(settings.log_level)
    tighten(settings.data_dir)
    try:
        upgrade(settings.sqlalchemy_url)
        asyncio.run(_until_signal(settings, main))
    except (DatabaseNewer, DatabaseBroken) as error:
        print(error, file=sys.stderr)
        return 2
    except SettingsError as error:
        print(SETTINGS_BAD.format(error=error), file=sys.stderr)
        return 1 if error.code in ("port_busy", "port_refused") else 2
    return 0


async def _until_signal(settings: Settings, main: Callable[[Settings, asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await main(settings, stop)


def _migrate(args: argparse.Namespace) -> int:
    from gateway.migrate import HEAD, upgrade

    before = upgrade(settings_from(args).sqlalchemy_url)
    if before == HEAD:
        print(up_texts.UP_TO_DATE.format(head=HEAD))
    else:
        print(up_texts.MIGRATED.format(head=HEAD, before=before or up_texts.EMPTY))
    return 0


def _demo(args: argparse.Namespace) -> int:
    from gateway.cli_demo_scenes import play

    return play(args)
