"""What a process does beside its main work: each part is kept going until the process ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from config.logging import get_logger, log

_AGAIN_S = 1.0
_logger = get_logger(__name__)


class Background:
    """Parts that run until the stop event. One that fails is started again after a second; it never takes the process down,
    and never ends without a word."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, part: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Run a part until the stop event."""
        self._tasks.append(asyncio.create_task(self._keep(part)))

    async def end(self, limit_s: float) -> None:
        """Wait for the parts, which saw the stop event; whoever needs longer than ``limit_s`` is cancelled."""
        _, late = await asyncio.wait(self._tasks, timeout=limit_s) if self._tasks else (set(), set())
        for task in late:
            task.cancel()

    async def _keep(self, part: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        name = getattr(part, "__qualname__", "part")
        while not self._stop.is_set():
            try:
                await part(self._stop)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 -- the boundary of a background part
                log(_logger, "part.failed", logging.ERROR, part=name, error=error)
                await asyncio.sleep(_AGAIN_S)
