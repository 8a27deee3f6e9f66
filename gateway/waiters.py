"""HTTP handlers of this process that wait for an answer they could give passively."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

_MARGIN_MS = 700
"""How long a reservation outlives its handler's deadline: the time the handler needs to take it."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """One handler's place among those who wait for a row's answer."""

    seq: int
    until: float
    answer: asyncio.Future[str | None]

    async def wait(self, until: float) -> tuple[bool, str | None]:
        """Wait for the answer: (True, its group or None for an empty one), or (False, None) at ``until``."""
        done, _ = await asyncio.wait({self.answer}, timeout=max(0.0, until - time.monotonic()))
        return (True, self.answer.result()) if done else (False, None)


class Waiters:
    """Who waits for which inbound row, and until when (monotonic seconds)."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Waiter]] = {}

    def expect(self, seq: int, until: float) -> Waiter:
        """Take a place; do so before the answer is begun, or a quick one finds nobody waiting. ``leave`` gives it back."""
        waiter = Waiter(seq, until, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(seq, []).append(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Wait no more."""
        waiting = self._waiting.get(waiter.seq, [])
        if waiter in waiting:
            waiting.remove(waiter)
        if not waiting:
            self._waiting.pop(waiter.seq, None)

    def reserve_ms(self, seqs: Sequence[int]) -> int:
        """How long an answer to these rows should be kept for a waiting handler; 0 when none waits. Any thread."""
        now = time.monotonic()
        left = [waiter.until - now for seq in seqs for waiter in tuple(self._waiting.get(seq, ()))]
        longest = max(left, default=0.0)
        return int(longest * 1000) + _MARGIN_MS if longest > 0.02 else 0

    def resolve(self, seqs: Sequence[int], group: str | None) -> bool:
        """Hand the answer to every waiting handler; whether there was any."""
        taken = False
        for seq in seqs:
            for waiter in self._waiting.get(seq, []):
                if not waiter.answer.done():
                    waiter.answer.set_result(group)
                    taken = True
        return taken
