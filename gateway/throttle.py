"""Pace: what platforms drop silently or refuse when it comes too fast, known beforehand (DEL-24)."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy import Connection, func, select

from agent.protocol import Platform
from config.clock import Clock
from config.columns import table_of
from config.logging import get_logger, log
from gateway.channel import Target
from gateway.outbox_states import ROWS
from memory.models import Conversation

_CONVERSATION = table_of(Conversation)
_logger = get_logger(__name__)
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_WINDOW_MS = 48 * _HOUR_MS
_KNOWN_MEMBERS = 20_000

_TAKE = """
local now = tonumber(ARGV[1])
local newest = redis.call('LINDEX', KEYS[1], 0)
if newest and tonumber(newest) > now + 60000 then
  for i, stamp in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
    if tonumber(stamp) > now then redis.call('LSET', KEYS[1], i - 1, ARGV[1]) end
  end
end
for i = 2, #ARGV, 2 do
  local nth = redis.call('LINDEX', KEYS[1], tonumber(ARGV[i]) - 1)
  if nth and now - tonumber(nth) < tonumber(ARGV[i + 1]) then
    return tonumber(nth) + tonumber(ARGV[i + 1]) - now
  end
end
redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[#ARGV - 1]) - 1)
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[#ARGV]))
return 0
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """At most ``count`` messages in any ``window_ms``."""

    count: int
    window_ms: int


MEMBER = (Pace(30, _MINUTE_MS), Pace(1000, _HOUR_MS))
"""One WeCom app to one member; the excess is dropped with errcode 0 (wecom.send.member_rate)."""
ROBOT = (Pace(20, _MINUTE_MS),)
"""One group robot (wecom.webhook.rate)."""
ACCOUNT = (Pace(9_000, _MINUTE_MS),)
"""One account's send calls; WeCom allows 10,000 a minute for a whole company (wecom.rate.corp_api)."""


class Throttle:
    """Tells how long a message must wait. Shared over processes by Redis; without it each process keeps its own count."""

    def __init__(self, redis: Redis | None, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock
        self._local: OrderedDict[str, deque[int]] = OrderedDict()
        self._take = None if redis is None else redis.register_script(_TAKE)

    async def take(self, account_id: str, platform: Platform, target: Target) -> int:
        """Count a message that is about to be sent; 0 when it may go now, else the milliseconds it must wait (not counted)."""
        if target.webhook is not None:
            return await self._pace(f"robot:{account_id}:{target.webhook}", ROBOT)
        wait = 0
        if platform == "wecom" and len(target.users) == 1:
            wait = await self._pace(f"member:{account_id}:{target.users[0].lower()}", MEMBER)
        return wait or await self._pace(f"account:{account_id}", ACCOUNT)

    async def take_many(self, name: str, count: int, per_minute: int) -> int:
        """Count ``count`` recipients of a program's key in this minute; 0 when they fit, else the milliseconds until the
        next minute (not counted). A single request larger than the whole limit never fits."""
        now = self._clock.now_ms()
        minute, rest = divmod(now, _MINUTE_MS)
        wait = _MINUTE_MS - rest
        if self._redis is not None:
            bucket = f"yz:rate:{name}:{minute}"
            try:
                used = int(await self._redis.incrby(bucket, count))
                await self._redis.pexpire(bucket, 2 * _MINUTE_MS)
                if used <= per_minute:
                    return 0
                await self._redis.decrby(bucket, count)
                return wait
            except (RedisError, OSError) as error:
                log(_logger, "throttle.local", logging.WARNING, reason=type(error).__name__)
        kept = self._local.setdefault(f"{name}:{minute}", deque((0,), maxlen=1))
        if kept[0] + count > per_minute:
            return wait
        kept.append(kept[0] + count)
        return 0

    async def _pace(self, name: str, paces: tuple[Pace, ...]) -> int:
        now = self._clock.now_ms()
        if self._take is not None:
            arguments = [now, *(value for pace in paces for value in (pace.count, pace.window_ms))]
            try:
                return int(await cast(Awaitable[Any], self._take(keys=[f"yz:pace:{name}"], args=arguments)))
            except (RedisError, OSError) as error:
                log(_logger, "throttle.local", logging.WARNING, reason=type(error).__name__)
        return self._pace_here(name, paces, now)

    def _pace_here(self, name: str, paces: tuple[Pace, ...], now: int) -> int:
        times = self._local.setdefault(name, deque(maxlen=max(pace.count for pace in paces)))
        self._local.move_to_end(name)
        while len(self._local) > _KNOWN_MEMBERS:
            self._local.popitem(last=False)
        if times and times[-1] > now + _MINUTE_MS:  # the clock was set back; as far as anybody can tell, they went just now
            earlier = [min(moment, now) for moment in times]
            times.clear()
            times.extend(earlier)
        for pace in paces:
            if len(times) >= pace.count and now - times[-pace.count] < pace.window_ms:
                return times[-pace.count] + pace.window_ms - now
        times.append(now)
        return 0


_SHORT_ACTS = frozenset({"menu_click", "subscribe", "scan"})
"""Acts that open an Official Account for three messages within a minute; anything else opens it for five in 48 hours."""


def window_closed(connection: Connection, conversation_id: str, now_ms: int) -> bool:
    """Whether an Official Account would refuse a customer-service message to this person now (oa.cs.window).

    False when nothing is known about the person: then the platform decides.
    """
    columns = (_CONVERSATION.c.last_act_ms, _CONVERSATION.c.last_act_kind)
    row = connection.execute(select(*columns).where(_CONVERSATION.c.id == conversation_id)).first()
    if row is None or row[0] is None:
        return False
    if row[1] in _SHORT_ACTS:
        return False  # an earlier message's longer window may still be open; only the platform knows
    if now_ms - row[0] >= _WINDOW_MS:
        return True
    here = (ROWS.c.conversation_id == conversation_id, ROWS.c.sent_at_ms >= row[0])
    used = select(func.count()).select_from(ROWS).where(*here, ROWS.c.via == "push", ROWS.c.kind != "template")
    return int(connection.execute(used).scalar_one()) >= 5
