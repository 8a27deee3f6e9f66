"""The pace of messages to one member, with Redis and without, and a clock that is set back under it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from config.clock import FixedClock
from gateway.channel import Target
from gateway.redis_links import open_redis
from gateway.throttle import MEMBER, Throttle

_ONE = Target(users=("zhangsan",))


@pytest.fixture(params=["redis", "alone"])
async def throttle(request: pytest.FixtureRequest, valkey: str) -> AsyncIterator[Throttle]:
    redis = open_redis(valkey) if request.param == "redis" else None
    yield Throttle(redis, FixedClock())
    if redis is not None:
        await redis.aclose()


async def test_a_clock_set_back_an_hour_makes_nobody_wait_for_more_than_the_window(throttle: Throttle) -> None:
    """A full minute's worth went out; then the clock goes back. The next one waits a minute, as it would have anyway."""
    clock = throttle._clock
    assert isinstance(clock, FixedClock)
    per_minute = MEMBER[0]
    for _ in range(per_minute.count):
        assert await throttle.take("wecom-main", "wecom", _ONE) == 0
    clock.advance(-3600)
    assert 0 < await throttle.take("wecom-main", "wecom", _ONE) <= per_minute.window_ms
    clock.advance(per_minute.window_ms / 1000)
    assert await throttle.take("wecom-main", "wecom", _ONE) == 0
