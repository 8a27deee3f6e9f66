"""The access_token of every account: one shared record, one refresh at a time over all processes, no second guess."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from redis.asyncio import Redis
from redis.exceptions import RedisError

from config.clock import Clock
from config.ids import new_id
from config.logging import get_logger, log
from config.schema import MpAccount, WecomAccount
from gateway.errors import Action, PlatformError, TokenRejected, TokenUnavailable, operator_hint
from gateway.texts import TOKEN_CONTENTION, TOKEN_FAILED
from gateway.token_records import Failure, LocalRecords, Record, Records, RedisRecords

AHEAD_MS = 300_000
_JITTER_MS = 60_000
_WAIT_S = 14.0
_REDIS_PAUSE_S = 3.0
_STALE_ALERT_AT = 4
"""Refused tokens within a minute that mean somebody else refreshes this account's token (TOK-10)."""
_ALERT_GAP_MS = 600_000

_logger = get_logger(__name__)
_T = TypeVar("_T")
Fetch = Callable[[str, bool], Awaitable[tuple[str, int]]]
"""(account id, force) → (token, expires_in seconds). Raises PlatformError with context "token"."""
AlertHook = Callable[[str, str, str], None]
"""(account id, code, detail). Codes: token_failed, token_rejected, token_contention. Must not block or raise."""


@dataclass(frozen=True, slots=True)
class Token:
    """An access_token and the version of the record it was read from. ``value`` stays out of every repr."""

    value: str = field(repr=False)
    version: int


@dataclass(slots=True)
class _Entry:
    platform: Literal["wecom", "mp"]
    local: LocalRecords
    shared: RedisRecords | None
    lock: asyncio.Lock
    alerted_ms: dict[str, int]


class TokenStore:
    """Tokens by account id. Read at send time, never kept by a caller."""

    def __init__(self, redis: Redis | None, clock: Clock, fetch: Fetch, *, on_alert: AlertHook | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._fetch = fetch
        self._on_alert = on_alert
        self._entries: dict[str, _Entry] = {}
        self._redis_back_at = 0.0
        self._owner = new_id("tok")

    def add(self, account: WecomAccount | MpAccount) -> None:
        """Make an account known. Its record is keyed by account and secret, so a new secret starts afresh."""
        identity, secret = (
            (account.corp_id, account.secret) if isinstance(account, WecomAccount) else (account.app_id, account.app_secret)
        )
        digest = hashlib.sha256(f"{identity}\0{secret.get_secret_value()}\0{account.api_base or ''}".encode()).hexdigest()[:24]
        shared = RedisRecords(self._redis, f"{account.id}:{digest}") if self._redis is not None else None
        self._entries[account.id] = _Entry(account.platform, LocalRecords(), shared, asyncio.Lock(), {})

    async def get(self, account_id: str) -> Token:
        """A token that is valid now, refreshed ahead of its end. Raises TokenUnavailable."""
        entry = self._entries[account_id]
        record = await self._on(entry, lambda records: records.read())
        now = self._clock.now_ms()
        if record is not None and now < record.refresh_at_ms and now < record.expires_at_ms:
            return Token(record.value, record.version)
        spare = record if record is not None and now < record.expires_at_ms - 2_000 else None
        if spare is not None and entry.lock.locked():
            return Token(spare.value, spare.version)
        async with entry.lock:
            try:
                return await self._on(entry, lambda records: self._renew(account_id, entry, records, failed=None))
            except TokenUnavailable:
                if spare is None:
                    raise
                return Token(spare.value, spare.version)

    async def refresh(self, account_id: str, failed: Token) -> Token:
        """A token other than ``failed``, which the platform refused: the one somebody else stored since, or one fetched
        now. Raises TokenRejected when there is no other to be had, TokenUnavailable when the fetch fails."""
        entry = self._entries[account_id]
        async with entry.lock:
            return await self._on(entry, lambda records: self._renew(account_id, entry, records, failed=failed))

    async def _renew(self, account_id: str, entry: _Entry, records: Records, failed: Token | None) -> Token:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _WAIT_S
        pause = 0.01
        while True:
            record = await records.read()
            if record is not None and self._usable(record, failed):
                return Token(record.value, record.version)
            await self._respect_backoff(entry, records, failed)
            owner = f"{self._owner}{random.getrandbits(40):x}"
            fence = await records.acquire(owner)
            if fence:
                return await self._fetch_locked(account_id, entry, records, owner, fence, failed)
            if record is not None and failed is None and self._clock.now_ms() < record.expires_at_ms - 2_000:
                return Token(record.value, record.version)  # somebody refreshes ahead; this one is still good
            if loop.time() > deadline:
                raise TokenUnavailable("another process holds the token refresh", platform=entry.platform, transport="not_sent")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.1)

    def _usable(self, record: Record, failed: Token | None) -> bool:
        now = self._clock.now_ms()
        if failed is not None:
            return record.value != failed.value and record.version >= failed.version and now < record.expires_at_ms
        return now < record.refresh_at_ms and now < record.expires_at_ms

    async def _respect_backoff(self, entry: _Entry, records: Records, failed: Token | None) -> None:
        failure = await records.failure()
        if failure is None or self._clock.now_ms() >= failure.until_ms:
            return
        if failure.rejected and failed is None:
            return
        kind = TokenRejected if failure.rejected else TokenUnavailable
        raise kind(
            "the last token fetch failed; waiting before the next",
            platform=entry.platform,
            errcode=failure.errcode,
            errmsg=failure.errmsg,
            transport="not_sent",
            context="token",
        )

    async def _fetch_locked(
        self, account_id: str, entry: _Entry, records: Records, owner: str, fence: int, failed: Token | None
    ) -> Token:
        try:
            record = await records.read()  # what was stored while the lock was being taken
            if record is not None and self._usable(record, failed):
                return Token(record.value, record.version)
            if failed is not None and await records.count_stale(self._clock.now_ms()) >= _STALE_ALERT_AT:
                self._alert(account_id, entry, "token_contention", TOKEN_CONTENTION)
            value, expires_in = await self._fetch_value(account_id, entry, records, failed)
            stored = self._record(value, expires_in, fence, record)
            log(
                _logger,
                "token.refreshed",
                account=account_id,
                version=fence,
                expires_in_s=expires_in,
                after_refusal=failed is not None,
            )
            await records.set_failure(None)
            if not await records.store(stored):
                newer = await records.read()
                stored = newer if newer is not None else stored
            entry.local.adopt(stored)
            return Token(stored.value, stored.version)
        except PlatformError as error:
            await self._remember_failure(account_id, entry, records, error)
            raise
        finally:
            await records.release(owner)

    async def _fetch_value(self, account_id: str, entry: _Entry, records: Records, failed: Token | None) -> tuple[str, int]:
        value, expires_in = await self._fetch_once(account_id, entry, force=False)
        if failed is None or value != failed.value:
            return value, expires_in
        if entry.platform == "mp" and await records.may_force(self._clock.now_ms(), self._clock.local().date().isoformat()):
            value, expires_in = await self._fetch_once(account_id, entry, force=True)
        if value == failed.value:
            raise TokenRejected(
                "the platform hands out the token it refuses",
                platform=entry.platform,
                errcode=40014,
                errmsg="the refreshed access_token is the refused one",
                transport="not_sent",
                context="token",
            )
        return value, expires_in

    async def _fetch_once(self, account_id: str, entry: _Entry, *, force: bool) -> tuple[str, int]:
        try:
            value, expires_in = await self._fetch(account_id, force)
        except TokenUnavailable:
            raise
        except PlatformError as error:
            raise TokenUnavailable(
                "the token fetch failed",
                platform=entry.platform,
                errcode=error.errcode,
                errmsg=error.errmsg,
                transport="not_sent",
                context="token",
            ) from None
        if not value or expires_in <= 0:
            raise TokenUnavailable(
                "the platform gave an empty token", platform=entry.platform, transport="not_sent", context="token"
            )
        return value, expires_in

    def _record(self, value: str, expires_in: int, fence: int, before: Record | None) -> Record:
        now = self._clock.now_ms()
        expires = now + expires_in * 1000
        if before is not None and before.value == value:  # asked ahead, got the same: it cannot be renewed before its end
            refresh = max(expires - 3_000, now + 1_000)
        else:
            ahead = AHEAD_MS + random.randint(-_JITTER_MS, _JITTER_MS)  # noqa: S311 - spreads load
            refresh = max(expires - ahead, now + expires_in * 500)
        return Record(value, fence, expires, refresh)

    async def _remember_failure(self, account_id: str, entry: _Entry, records: Records, error: PlatformError) -> None:
        before = await records.failure()
        count = before.count + 1 if before is not None else 1
        lasting = error.action is Action.operator or isinstance(error, TokenRejected)
        wait_ms = 30_000 if lasting else min(1_000 * 2 ** min(count - 1, 6), 60_000)
        rejected = isinstance(error, TokenRejected)
        until = self._clock.now_ms() + wait_ms
        log(_logger, "token.failed", logging.WARNING, account=account_id, errcode=error.errcode, code=error.code, in_a_row=count)
        await records.set_failure(Failure(until, error.errcode, error.errmsg[:300], count, rejected))
        if lasting or count >= 3:
            code = "token_rejected" if rejected else "token_failed"
            hint = operator_hint(entry.platform, error.errcode, error.errmsg) if error.errcode is not None else None
            told = TOKEN_FAILED.format(errcode=error.errcode, errmsg=error.errmsg[:200], hint=hint or "")
            self._alert(account_id, entry, code, told.strip())

    async def _on(self, entry: _Entry, work: Callable[[Records], Awaitable[_T]]) -> _T:
        """Run on the shared records, or, while Redis is away, on this process's own."""
        now = asyncio.get_running_loop().time()
        if entry.shared is not None and now >= self._redis_back_at:
            try:
                result = await work(entry.shared)
            except (RedisError, OSError):
                self._redis_back_at = now + _REDIS_PAUSE_S
            else:
                if isinstance(result, Record):
                    entry.local.adopt(result)  # what serves if Redis goes away now
                return result
        return await work(entry.local)

    def _alert(self, account_id: str, entry: _Entry, code: str, detail: str) -> None:
        now = self._clock.now_ms()
        if self._on_alert is None or now - entry.alerted_ms.get(code, -_ALERT_GAP_MS) < _ALERT_GAP_MS:
            return
        entry.alerted_ms[code] = now
        self._on_alert(account_id, code, detail)
