"""The command line: a thin table; each command's module is imported only when it is called."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence

from config.errors import SettingsError, YizhanError
from gateway import cli_texts as texts
from gateway.cli_start import CommandEnds

COMMANDS = {
    "up": "cli_up",
    "serve": "cli_up",
    "worker": "cli_up",
    "migrate": "cli_up",
    "demo": "cli_up",
    "init": "cli_init",
    "connect": "cli_connect",
    "doctor": "cli_doctor",
    "inspect": "cli_inspect",
    "trace": "cli_trace",
    "outbox": "cli_outbox",
    "usage": "cli_usage",
    "push": "cli_push",
    "keys": "cli_keys",
    "menu": "cli_menu",
    "models": "cli_models",
    "tools": "cli_tools",
}
"""Command → module of this package that registers it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 ok, 1 the thing failed, 2 usage or settings error."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(arguments)
    args = parser.parse_args(arguments)
    if not hasattr(args, "run"):
        parser.print_help()
        return 2
    _quiet_events()
    try:
        return int(args.run(args))
    except CommandEnds as end:
        print(end, file=sys.stderr)
        return end.exit_code
    except SettingsError as error:
        print(texts.SETTINGS_BAD.format(error=error), file=sys.stderr)
        return 2
    except YizhanError as error:
        print(texts.FAILED.format(code=error.code, error=error), file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except OSError as error:
        if error.filename is None:
            raise  # not about a file: a mistake of ours, whose frames are wanted
        print(texts.FAILED_FILE.format(file=error.filename, reason=error.strerror), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if (broken := _damage(error)) is None:
            raise
        print(texts.FAILED_DATABASE.format(reason=broken), file=sys.stderr)
        return 1


def _damage(error: Exception) -> str | None:
    from gateway.migrate import damage

    return damage(error)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="yizhan", description="驿站：企业微信与公众号的智能助手网关")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    called = next((word for word in arguments if word in COMMANDS), None)
    modules = [COMMANDS[called]] if called is not None else list(dict.fromkeys(COMMANDS.values()))
    for module in modules:
        if importlib.util.find_spec(f"gateway.{module}") is not None:
            importlib.import_module(f"gateway.{module}").register(subparsers)
    return parser


def _quiet_events() -> None:
    """Commands say in words what went wrong; events are for the logs of processes, which set their own level."""
    from config.logging import setup_logging

    setup_logging("ERROR")


if __name__ == "__main__":
    sys.exit(main())
