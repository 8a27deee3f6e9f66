"""``python -m scripts.simulator``: start the fake platforms and print the chat page's address."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
from pathlib import Path

from .accounts import AccountsError, load_accounts
from .app import serving
from .timekeeper import Timekeeper
from .world import World


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; exit code 0, or 2 for bad arguments."""
    options = _parser().parse_args(_joined(sys.argv[1:] if argv is None else argv))
    try:
        accounts = load_accounts(options.accounts, options.callback_base)
    except (AccountsError, OSError) as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 2
    token = secrets.token_urlsafe(18) if options.token is None else options.token
    world = World(accounts, Timekeeper(options.clock), token, options.demo_dir)
    return asyncio.run(_serve(world, options.port))


def _joined(argv: list[str]) -> list[str]:
    """``--token -abc`` as ``--token=-abc``: a random token may begin with a dash, which argparse takes for an option."""
    arguments = list(argv)
    if "--token" in arguments[:-1]:
        at = arguments.index("--token")
        arguments[at : at + 2] = [f"--token={arguments[at + 1]}"]
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.simulator", description="A fake WeCom and Official Account.")
    parser.add_argument("--port", type=int, default=8090, help="loopback port, 0 for any free one (default 8090)")
    parser.add_argument("--token", help="start-up token; empty for none; default: a new random one")
    parser.add_argument("--callback-base", default="http://127.0.0.1:8080", help="where /callback/{account} is")
    parser.add_argument("--accounts", help="JSON text or file with the accounts; default: the demo's")
    parser.add_argument("--clock", type=Path, help="file for the virtual clock's offset in milliseconds")
    parser.add_argument("--demo-dir", type=Path, help="data folder of the running demo, for the page's buttons")
    return parser


async def _serve(world: World, port: int) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    try:
        async with serving(world, port) as base:
            print(f"simulator ready: {base}/?token={world.start_token}" if world.start_token else f"simulator ready: {base}/")
            sys.stdout.flush()
            await stop.wait()
    except OSError as error:
        print(f"simulator: cannot listen on port {port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
