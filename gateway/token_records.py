"""Where access tokens are kept: in Redis for all processes, or in this process while Redis is away. Same rules."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from redis.asyncio import Redis

LOCK_MS = 12_000
"""Longer than the longest token fetch; a holder that takes longer loses the right to store (its fence is old)."""

# KEYS: lock, fence   ARGV: owner, lock ms → the new fence, or 0
_ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end
return 0
"""
# KEYS: record   ARGV: fence, value, expires, refresh at → 1 stored, 0 somebody newer stored before
_STORE = """
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
if tonumber(ARGV[1]) <= version then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'version', ARGV[1], 'expires', ARGV[3], 'refresh', ARGV[4])
redis.call('PEXPIRE', KEYS[1], 86400000)
return 1
"""
# KEYS: lock   ARGV: owner
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
# KEYS: force   ARGV: now ms, day, min gap ms, per day → 1 allowed and counted
_FORCE = """
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '0')
local day = redis.call('HGET', KEYS[1], 'day')
local count = tonumber(redis.call('HGET', KEYS[1], 'count') or '0')
if day ~= ARGV[2] then count = 0 end
if tonumber(ARGV[1]) - last < tonumber(ARGV[3]) or count >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], 'last', ARGV[1], 'day', ARGV[2], 'count', count + 1)
redis.call('PEXPIRE', KEYS[1], 172800000)
return 1
"""
_FORCE_GAP_MS = 30_000
_FORCE_PER_DAY = 20


@dataclass(frozen=True, slots=True)
class Record:
    """A stored token. Times are epoch ms; ``version`` is the fencing number of the refresh that stored it."""

    value: str
    version: int
    expires_at_ms: int
    refresh_at_ms: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failed fetch: until when nobody tries again, what the platform said, how many in a row."""

    until_ms: int
    errcode: int | None
    errmsg: str
    count: int
    rejected: bool = False


class Records(Protocol):
    """The record, lock, failure and counters of one (account, secret)."""

    async def read(self) -> Record | None:
        """The stored token, expired or not."""
        ...

    async def acquire(self, owner: str) -> int:
        """Take the refresh lock; the fencing number, or 0 when somebody else refreshes."""
        ...

    async def store(self, record: Record) -> bool:
        """Store unless a newer version is there."""
        ...

    async def release(self, owner: str) -> None:
        """Give the lock back if it is still ours."""
        ...

    async def failure(self) -> Failure | None:
        """The last failed fetch since the last success."""
        ...

    async def set_failure(self, failure: Failure | None) -> None:
        """Remember or forget a failed fetch."""
        ...

    async def may_force(self, now_ms: int, day: str) -> bool:
        """Whether a forced refresh is allowed now (30 s apart, 20 a day); counts it."""
        ...

    async def count_stale(self, now_ms: int) -> int:
        """Count one refused token; how many in the last minute."""
        ...


class RedisRecords:
    """Records in Redis. Raises redis errors; the caller then uses LocalRecords."""

    def __init__(self, redis: Redis, key: str) -> None:
        self._redis: Any = redis  # the client's stubs mix sync and async return types
        self._key = f"yz:token:{{{key}}}"

    async def read(self) -> Record | None:
        """See Records.read."""
        value, version, expires, refresh = await self._redis.hmget(self._key, "value", "version", "expires", "refresh")
        if not value:
            return None
        return Record(_text(value), int(version), int(expires), int(refresh))

    async def acquire(self, owner: str) -> int:
        """See Records.acquire."""
        return int(await self._redis.eval(_ACQUIRE, 2, f"{self._key}:lock", f"{self._key}:fence", owner, LOCK_MS))

    async def store(self, record: Record) -> bool:
        """See Records.store."""
        values = (record.version, record.value, record.expires_at_ms, record.refresh_at_ms)
        return bool(await self._redis.eval(_STORE, 1, self._key, *values))

    async def release(self, owner: str) -> None:
        """See Records.release."""
        await self._redis.eval(_RELEASE, 1, f"{self._key}:lock", owner)

    async def failure(self) -> Failure | None:
        """See Records.failure."""
        found = await self._redis.hgetall(f"{self._key}:failure")
        if not found:
            return None
        values = {_text(name): _text(value) for name, value in found.items()}
        errcode = int(values["errcode"]) if values["errcode"] else None
        return Failure(int(values["until"]), errcode, values["errmsg"], int(values["count"]), values["rejected"] == "1")

    async def set_failure(self, failure: Failure | None) -> None:
        """See Records.set_failure."""
        key = f"{self._key}:failure"
        if failure is None:
            await self._redis.delete(key)
            return
        errcode = "" if failure.errcode is None else str(failure.errcode)
        values = {"until": failure.until_ms, "errcode": errcode, "errmsg": failure.errmsg, "count": failure.count}
        await self._redis.hset(key, mapping={**values, "rejected": int(failure.rejected)})
        await self._redis.pexpire(key, 3_600_000)

    async def may_force(self, now_ms: int, day: str) -> bool:
        """See Records.may_force."""
        return bool(await self._redis.eval(_FORCE, 1, f"{self._key}:force", now_ms, day, _FORCE_GAP_MS, _FORCE_PER_DAY))

    async def count_stale(self, now_ms: int) -> int:
        """See Records.count_stale."""
        key = f"{self._key}:stale"
        await self._redis.zremrangebyscore(key, "-inf", now_ms - 60_000)
        await self._redis.zadd(key, {secrets.token_hex(8): now_ms})
        await self._redis.pexpire(key, 120_000)
        return int(await self._redis.zcard(key))


class LocalRecords:
    """Records of this process alone."""

    def __init__(self) -> None:
        self._record: Record | None = None
        self._owner: str | None = None
        self._fence = 0
        self._failure: Failure | None = None
        self._forced: tuple[int, str, int] = (0, "", 0)
        self._stale: deque[int] = deque()

    async def read(self) -> Record | None:
        """See Records.read."""
        return self._record

    async def acquire(self, owner: str) -> int:
        """See Records.acquire."""
        if self._owner is not None:
            return 0
        self._owner = owner
        self._fence = max(self._fence, self._record.version if self._record else 0) + 1
        return self._fence

    async def store(self, record: Record) -> bool:
        """See Records.store."""
        if self._record is not None and record.version <= self._record.version:
            return False
        self._record = record
        return True

    def adopt(self, record: Record) -> None:
        """Take over what the shared store holds."""
        self._record = record

    async def release(self, owner: str) -> None:
        """See Records.release."""
        if self._owner == owner:
            self._owner = None

    async def failure(self) -> Failure | None:
        """See Records.failure."""
        return self._failure

    async def set_failure(self, failure: Failure | None) -> None:
        """See Records.set_failure."""
        self._failure = failure

    async def may_force(self, now_ms: int, day: str) -> bool:
        """See Records.may_force."""
        last, counted_day, count = self._forced
        count = count if counted_day == day else 0
        if now_ms - last < _FORCE_GAP_MS or count >= _FORCE_PER_DAY:
            return False
        self._forced = (now_ms, day, count + 1)
        return True

    async def count_stale(self, now_ms: int) -> int:
        """See Records.count_stale."""
        while self._stale and self._stale[0] <= now_ms - 60_000:
            self._stale.popleft()
        self._stale.append(now_ms)
        return len(self._stale)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
