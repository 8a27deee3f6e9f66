"""Accounts for tests, with made-up secrets."""

from __future__ import annotations

from typing import Any

from config.schema import MpAccount, Settings, Tenant, WecomAccount

WECOM_SECRET = "wecom-app-secret-0123456789"
MP_SECRET = "mp-app-secret-0123456789"
AES_KEY = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"


def wecom_account(**values: Any) -> WecomAccount:
    """A WeCom app."""
    given: dict[str, Any] = {
        "id": "wecom-main",
        "platform": "wecom",
        "corp_id": "ww0123456789abcdef",
        "agent_id": 1000002,
        "secret": WECOM_SECRET,
        "callback_token": "callbackToken",
        "encoding_aes_key": AES_KEY,
    }
    return WecomAccount(**{**given, **values})


def mp_account(**values: Any) -> MpAccount:
    """An Official Account."""
    given: dict[str, Any] = {
        "id": "mp-main",
        "platform": "mp",
        "app_id": "wx0123456789abcdef",
        "app_secret": MP_SECRET,
        "callback_token": "callbackToken",
        "encoding_aes_key": AES_KEY,
    }
    return MpAccount(**{**given, **values})


def settings_of(*accounts: WecomAccount | MpAccount, **values: Any) -> Settings:
    """Settings with one tenant that has these accounts."""
    return Settings(tenants=(Tenant(id="acme", accounts=tuple(accounts)),), **values)
