"""Redis connections with our time limits: a gateway never hangs on Redis, and never retries inside a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis
    import redis.asyncio as aredis

CONNECT_S = 0.5
SOCKET_S = 1.0


def open_redis(url: str) -> aredis.Redis:
    """The asyncio client of a gateway process: connect 0.5 s, answer 1 s, no retry. Connects on first use."""
    import redis.asyncio as aredis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    client: aredis.Redis = aredis.Redis.from_url(url, **_limits(), retry=Retry(NoBackoff(), 0))
    return client


def open_listener(url: str) -> aredis.Redis:
    """A client for subscriptions: a read ends when its caller says so, not by the socket's limit."""
    import redis.asyncio as aredis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    client: aredis.Redis = aredis.Redis.from_url(url, **_limits(socket_timeout=None), retry=Retry(NoBackoff(), 0))
    return client


def open_blocking(url: str, *, socket_s: float | None = SOCKET_S) -> redis.Redis:
    """The synchronous client RQ wants. ``socket_s`` None: RQ sets its own for blocking pops."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    client: redis.Redis = redis.Redis.from_url(url, **_limits(socket_timeout=socket_s), retry=Retry(NoBackoff(), 0))
    return client


def _limits(socket_timeout: float | None = SOCKET_S) -> dict[str, Any]:
    return {"socket_connect_timeout": CONNECT_S, "socket_timeout": socket_timeout}
