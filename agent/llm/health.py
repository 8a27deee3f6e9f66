"""Which routes rest: three failures in a minute, or the endpoint's own word; afterwards one caller tries for all."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from agent.llm.base import ModelError
from config.clock import Clock

REST_FAILURES = 3
REST_WINDOW_S = 60.0
_FAIR_S = 5.0
"""A timeout counts against a route only if it had so long, or all the time it is set to have."""


@dataclass(slots=True)
class _Route:
    failures: deque[float] = field(default_factory=lambda: deque(maxlen=REST_FAILURES))
    until: float = 0.0
    tried: bool = False
    """Whether its rest is over and somebody is trying it just now: the others still go elsewhere."""


class Health:
    """What each route's last minute was like. For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._routes: dict[str, _Route] = {}

    def resting(self, name: str) -> bool:
        """Whether a route should be left alone: it rests, or its rest is over and its first call is still under way."""
        route = self._routes.get(name)
        return route is not None and (route.tried or self._clock.monotonic() < route.until)

    def begin(self, name: str) -> None:
        """A call begins."""
        route = self._routes.get(name)
        if route is not None and route.until:
            route.tried = True

    def end(self, name: str) -> None:
        """A call is over, however it ended; a trial that told nothing leaves the route to be tried again."""
        route = self._routes.get(name)
        if route is not None:
            route.tried = False

    def good(self, name: str) -> None:
        """It answered: all is forgotten."""
        self._routes.pop(name, None)

    def bad(self, name: str, error: ModelError, had_s: float, limit_s: float) -> None:
        """It failed after it was given ``had_s`` of the ``limit_s`` it is set to have. A refusal is no failure of the route,
        and neither is a turn that had no time left for it."""
        if not error.retryable or (error.kind == "timeout" and error.status is None and had_s < min(_FAIR_S, limit_s)):
            return
        now = self._clock.monotonic()
        route = self._routes.setdefault(name, _Route())
        on_trial = bool(route.until) and len(route.failures) == REST_FAILURES
        route.failures.append(now)
        if error.rest_s:
            route.until = max(route.until, now + error.rest_s)
        full = len(route.failures) == REST_FAILURES and now - route.failures[0] <= REST_WINDOW_S
        if full or on_trial:
            route.until = max(route.until, now + REST_WINDOW_S)
