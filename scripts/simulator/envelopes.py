"""A callback as it leaves the platform: query string and body, signed and encrypted anew for every attempt."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from urllib.parse import urlencode

from .accounts import SimAccount
from .crypto import Box, sign
from .payloads import cdata, to_json


@dataclass(frozen=True)
class Envelope:
    """One signed request to the gateway."""

    url: str
    body: bytes
    content_type: str


def seal(account: SimAccount, url: str, user: str, plaintext: str, now_s: int) -> Envelope:
    """The POST that carries ``plaintext`` in the account's mode (callback.sign, callback.oa.modes)."""
    timestamp, nonce = str(now_s), str(secrets.randbelow(2**31))
    query: dict[str, str] = {"timestamp": timestamp, "nonce": nonce}
    is_json = account.json_callbacks or plaintext.lstrip()[:1] == "{"
    body = plaintext
    if not account.wecom:
        query["signature"] = sign(account.callback_token, timestamp, nonce)
        query["openid"] = user
    if account.wecom or account.mode != "plain":
        encrypted = Box(account.aes_key or "", account.app_id).encrypt(plaintext.encode())
        query["msg_signature"] = sign(account.callback_token, timestamp, nonce, encrypted)
        if not account.wecom:
            query["encrypt_type"] = "aes"
        body = _outer(account, plaintext, encrypted, is_json)
    content_type = "application/json" if is_json else "text/xml"
    return Envelope(f"{url}{'&' if '?' in url else '?'}{urlencode(query)}", body.encode(), content_type)


def _outer(account: SimAccount, plaintext: str, encrypted: str, is_json: bool) -> str:
    if is_json:
        return to_json({"ToUserName": account.receiver, "Encrypt": encrypted})
    wrapped = f"<Encrypt>{cdata(encrypted)}</Encrypt>"
    if account.mode == "compat" and not account.wecom:
        head, _, _ = plaintext.rpartition("</xml>")
        return f"{head}{wrapped}</xml>"
    agent = f"<AgentID>{cdata(str(account.agent_id))}</AgentID>" if account.wecom else ""
    return f"<xml><ToUserName>{cdata(account.receiver)}</ToUserName>{agent}{wrapped}</xml>"


def verification(account: SimAccount, now_s: int) -> tuple[str, bytes]:
    """The GET an administrator's 保存 triggers: its URL and the exact bytes it must be answered with."""
    timestamp, nonce = str(now_s), str(secrets.randbelow(2**31))
    echo = str(secrets.randbelow(10**19))
    query = {"timestamp": timestamp, "nonce": nonce}
    if account.wecom:
        encrypted = Box(account.aes_key or "", account.app_id).encrypt(echo.encode())
        query |= {"msg_signature": sign(account.callback_token, timestamp, nonce, encrypted), "echostr": encrypted}
    else:
        query |= {"signature": sign(account.callback_token, timestamp, nonce), "echostr": echo}
    return f"{account.callback_url}?{urlencode(query)}", echo.encode()
