"""The doctor's look from outside: does the public callback URL lead to us, with these keys, and are the clocks right."""

from __future__ import annotations

import secrets
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode

import aiohttp

from config.clock import Clock
from config.schema import MpAccount, Settings, WecomAccount
from gateway import operator_texts as texts
from gateway.doctor_report import Finding
from gateway.envelope import sign
from gateway.health import HEALTH_PREFIX
from gateway.mp import crypto as mp_crypto
from gateway.wecom import crypto as wecom_crypto

_TIMEOUT = aiohttp.ClientTimeout(total=8, connect=4)
_SKEW_WARN_S = 30
_READ_BYTES = 2048


async def check_callback(
    settings: Settings, account: WecomAccount | MpAccount, session: aiohttp.ClientSession, public_url: str | None
) -> Finding:
    """Visit the URL the platform calls, first as a stranger, then signed as the platform would (CB-08)."""
    base = public_url or settings.http.public_url
    if base is None:
        return Finding(account.id, "callback", "warn", texts.NO_PUBLIC_URL, texts.NO_PUBLIC_URL_FIX)
    url = f"{base.rstrip('/')}/callback/{account.id}"
    listen = f"{settings.http.host}:{settings.http.port}"
    try:
        status, body, kind = await _get(session, url)
        if not body.startswith(HEALTH_PREFIX):
            return _not_ours(account.id, url, status, body, kind, listen)
        if status == 404:
            return Finding(account.id, "callback", "fail", texts.CALLBACK_UNKNOWN, texts.CALLBACK_UNKNOWN_FIX)
        query, expected = signed_check(account, Clock(settings.test_clock))
        status, body, _ = await _get(session, f"{url}?{query}")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        text = texts.CALLBACK_UNREACHABLE.format(url=url, reason=type(error).__name__)
        return Finding(account.id, "callback", "fail", text, texts.CALLBACK_UNREACHABLE_FIX)
    if status != 200 or body != expected:
        code = body.strip().rsplit(" ", 1)[-1] if body.startswith(HEALTH_PREFIX) else f"HTTP {status}"
        if code == "stale":
            return Finding(account.id, "callback", "fail", texts.CALLBACK_STALE, texts.CALLBACK_STALE_FIX)
        text = texts.CALLBACK_KEYS.format(code=code)
        return Finding(account.id, "callback", "fail", text, texts.CALLBACK_KEYS_FIX)
    return Finding(account.id, "callback", "ok", texts.CALLBACK_OK)


async def check_clock(settings: Settings, session: aiohttp.ClientSession, urls: tuple[str, ...]) -> Finding | None:
    """This machine's clock against the Date of the first of these hosts that answers; None when none does."""
    for url in urls:
        try:
            async with session.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
                told = response.headers.get("Date")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            continue
        if not told:
            continue
        skew_s = Clock().now_ms() / 1000 - parsedate_to_datetime(told).timestamp()
        return _clock_finding(skew_s, settings.callback_max_age_s)
    return None


def signed_check(account: WecomAccount | MpAccount, clock: Clock) -> tuple[str, str]:
    """The query of the check that an administrator's 保存 triggers, and what must be answered."""
    timestamp, nonce = str(clock.now_ms() // 1000), secrets.token_hex(5)
    echo = str(secrets.randbelow(10**18))
    query = {"timestamp": timestamp, "nonce": nonce}
    if isinstance(account, WecomAccount):
        encrypted = wecom_crypto.envelope(account).encrypt(echo.encode())
        query |= {"msg_signature": sign(account.callback_token, timestamp, nonce, encrypted), "echostr": encrypted}
    else:
        query |= {"signature": sign(account.callback_token, timestamp, nonce), "echostr": echo}
        if account.mode != "plain":
            mp_crypto.envelope(account)  # the key itself is well formed
    return urlencode(query), echo


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, str, str]:
    async with session.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
        raw = await response.content.read(_READ_BYTES)
        return response.status, raw.decode("utf-8", "replace"), response.content_type


def _not_ours(account_id: str, url: str, status: int, body: str, kind: str, listen: str) -> Finding:
    if kind == "text/html" or "<html" in body.lower() or "<!doctype" in body.lower():
        text, fix = texts.CALLBACK_PAGE.format(url=url), texts.CALLBACK_PAGE_FIX.format(listen=listen)
    else:
        text = texts.CALLBACK_OTHER.format(url=url, status=status)
        fix = texts.CALLBACK_OTHER_FIX.format(listen=listen)
    return Finding(account_id, "callback", "fail", text, fix)


def _clock_finding(skew_s: float, max_age_s: int) -> Finding:
    if abs(skew_s) < _SKEW_WARN_S:
        return Finding(texts.SYSTEM, "clock", "ok", texts.CLOCK_OK.format(skew_s=abs(round(skew_s))))
    direction = texts.CLOCK_AHEAD if skew_s > 0 else texts.CLOCK_BEHIND
    text = texts.CLOCK_BAD.format(direction=direction, skew_s=abs(round(skew_s)), max_age_s=max_age_s or "∞")
    level = "fail" if max_age_s and abs(skew_s) > max_age_s * 0.8 else "warn"
    return Finding(texts.SYSTEM, "clock", "fail" if level == "fail" else "warn", text, texts.CLOCK_FIX)
