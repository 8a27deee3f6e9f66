"""What the commands of the command line begin with: options, settings, the database, a way to end."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.errors import YizhanError
from gateway import cli_texts as texts

if TYPE_CHECKING:
    from config.database import Database
    from config.schema import MpAccount, Settings, WecomAccount


def config_parent() -> argparse.ArgumentParser:
    """The options every command takes: ``parents=[config_parent()]``."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--config", type=Path, metavar="FILE", help="设置文件（默认 YIZHAN_CONFIG，或 ./yizhan.yaml）")
    return parent


def settings_from(args: argparse.Namespace, **options: Any) -> Settings:
    """The settings a command runs with; what the loader corrected is told on stderr. Raises SettingsError, which ``main``
    prints with exit code 2."""
    from config.settings import load

    loaded = load(getattr(args, "config", None), **options)
    for warning in loaded.warnings:
        print(texts.SETTINGS_NOTE.format(warning=warning), file=sys.stderr)
    return loaded.settings


class CommandEnds(YizhanError):
    """A command cannot go on; the message is the whole sentence for the terminal."""

    code = "command"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def account_from(settings: Settings, account_id: str) -> WecomAccount | MpAccount:
    """The account a command was called with. Raises CommandEnds (2) that names those there are."""
    account = settings.account(account_id)
    if account is None:
        raise no_account(settings, account_id)
    return account


def no_account(settings: Settings, wanted: str) -> CommandEnds:
    """What is said about an account id that the settings do not have."""
    known = [account.id for tenant in settings.tenants for account in tenant.accounts]
    return CommandEnds(texts.NO_ACCOUNT.format(account=wanted, known="、".join(known) or texts.NONE_AT_ALL), 2)


@contextlib.asynccontextmanager
async def stored_data(settings: Settings) -> AsyncIterator[Database]:
    """The database, open, with its tables. Raises CommandEnds (1) where nothing was ever started."""
    from config.database import open_database
    from gateway.migrate import revision_of

    database = open_database(settings.sqlalchemy_url)
    try:
        if not await database.read(revision_of):
            raise CommandEnds(texts.NO_DATA, 1)
        yield database
    finally:
        await database.close()
