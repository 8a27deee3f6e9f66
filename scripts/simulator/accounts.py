"""The accounts the simulated platforms host, read from settings-shaped dictionaries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from config.demo import simulator_accounts

Platform = Literal["wecom", "mp"]


@dataclass(frozen=True)
class SimAccount:
    """One WeCom app or Official Account as the platform knows it."""

    id: str
    platform: Platform
    app_id: str
    """corp_id of a WeCom app, app_id of an Official Account."""
    secret: str
    callback_token: str
    aes_key: str | None
    callback_url: str
    title: str
    agent_id: int = 0
    mode: Literal["safe", "compat", "plain"] = "safe"
    original_id: str = ""
    """ToUserName of an Official Account's callbacks."""
    verified: bool = True
    menu: Mapping[str, Any] | None = None
    """The menu the account shows before the gateway publishes one."""
    json_callbacks: bool = False
    """Deliver callbacks as JSON instead of XML (Official Accounts only)."""

    @property
    def wecom(self) -> bool:
        """True for a WeCom app."""
        return self.platform == "wecom"

    @property
    def receiver(self) -> str:
        """What callbacks carry as ToUserName."""
        return self.app_id if self.wecom else self.original_id


class AccountsError(ValueError):
    """The accounts given to the simulator cannot be read."""


def load_accounts(source: str | None, callback_base: str) -> dict[str, SimAccount]:
    """Accounts by id from a JSON text, a JSON file, or (None) the demo's own.

    Accepts a list of account objects, ``{"accounts": [...]}`` or whole settings ``{"tenants": [{"accounts": ...}]}``.
    Raises AccountsError.
    """
    if source is None or not source.strip():
        raw: Any = simulator_accounts("")
    else:
        text = source if source.lstrip()[:1] in "[{" else Path(source).read_text(encoding="utf-8")
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise AccountsError(f"--accounts is not JSON: {error}") from None
    accounts = [parse_account(item, callback_base) for item in _account_list(raw)]
    if len({account.id for account in accounts}) != len(accounts):
        raise AccountsError("an account id is used twice")
    return {account.id: account for account in accounts}


def _account_list(raw: Any) -> list[Mapping[str, Any]]:
    if isinstance(raw, Mapping):
        if "tenants" in raw:
            return [account for tenant in raw["tenants"] for account in tenant.get("accounts", [])]
        raw = raw.get("accounts", [])
    if not isinstance(raw, list) or not all(isinstance(item, Mapping) for item in raw):
        raise AccountsError("expected a list of accounts")
    return raw


def parse_account(raw: Mapping[str, Any], callback_base: str) -> SimAccount:
    """One account object in settings form, plus ``verified``, ``title``, ``callback_url`` and ``json``."""
    try:
        platform: Platform = "wecom" if raw["platform"] == "wecom" else "mp"
        wecom = platform == "wecom"
        account_id = str(raw["id"])
        return SimAccount(
            id=account_id,
            platform=platform,
            app_id=str(raw["corp_id"] if wecom else raw["app_id"]),
            secret=str(raw["secret"] if wecom else raw["app_secret"]),
            callback_token=str(raw["callback_token"]),
            aes_key=raw.get("encoding_aes_key"),
            callback_url=str(raw.get("callback_url") or f"{callback_base.rstrip('/')}/callback/{account_id}"),
            title=str(raw.get("title") or account_id),
            agent_id=int(raw["agent_id"]) if wecom else 0,
            mode=raw.get("mode") or "safe",
            original_id=str(raw.get("original_id") or "gh_0123456789ab"),
            verified=bool(raw.get("verified", True)),
            menu=raw.get("menu"),
            json_callbacks=bool(raw.get("json", False)),
        )
    except KeyError as error:
        raise AccountsError(f"account {raw.get('id', '?')}: missing {error.args[0]}") from None
