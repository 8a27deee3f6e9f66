"""gettoken, token and stable_token: the three doors to an access_token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .accounts import SimAccount
from .answers import Refused
from .calls import Call, find_account, ok
from .tokens import TokenError


def _credential(call: Call, app_id: str, secret: str, wecom: bool) -> SimAccount:
    """The account with these credentials. Raises Refused 40013, 41004, 40001 or 40125."""
    candidates = find_account(call, app_id, wecom)
    if not candidates:
        raise Refused(40013)
    call.account = candidates[0]
    if not secret:
        raise Refused(41004)
    for account in candidates:
        if account.secret == secret:
            call.account = account
            return account
    raise Refused(40001 if wecom else 40125)


async def gettoken(call: Call) -> dict[str, Any]:
    """GET gettoken of WeCom."""
    account = _credential(call, call.query.get("corpid", ""), call.query.get("corpsecret", ""), True)
    value, expires_in = call.world.tokens.gettoken(account)
    return {"errcode": 0, "errmsg": "ok", "access_token": value, "expires_in": expires_in}


def _mp_credential(call: Call, request: Mapping[str, Any]) -> SimAccount:
    if request.get("grant_type") != "client_credential":
        raise Refused(40002)
    return _credential(call, str(request.get("appid") or ""), str(request.get("secret") or ""), False)


async def token(call: Call) -> dict[str, Any]:
    """GET token of Official Accounts; success has no errcode."""
    account = _mp_credential(call, call.query)
    try:
        value, expires_in = call.world.tokens.plain(account)
    except TokenError as error:
        raise Refused(error.errcode) from None
    return {"access_token": value, "expires_in": expires_in}


async def stable_token(call: Call) -> dict[str, Any]:
    """POST stable_token; expires_in is the remaining life."""
    request = call.json()
    account = _mp_credential(call, request)
    try:
        value, expires_in = call.world.tokens.stable(account, request.get("force_refresh") is True)
    except TokenError as error:
        raise Refused(error.errcode) from None
    return {"access_token": value, "expires_in": expires_in}


async def clear_quota(call: Call) -> dict[str, Any]:
    """POST clear_quota: every counter back to zero, ten times a month."""
    if str(call.json().get("appid") or "") != call.owner.app_id:
        raise Refused(40013)
    if not call.world.tokens.clear_quota(call.owner.id):
        raise Refused(48006)
    return ok()
