"""HTTP handlers of this process that wait for an answer they could give passively."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

_MARGIN_MS = 700
"""How long a reservation outlives its handler's deadline: the time the handler needs to take it."""


class Waiters:
    """Who waits for which inbound row, and until when (monotonic seconds)."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[tuple[asyncio.Future[str | None], float]]] = {}

    async def wait(self, seq: int, until: float) -> tuple[bool, str | None]:
        """Wait for the row's answer: (True, its group or None for an empty one), or (False, None) at ``until``."""
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        entry = (future, until)
        self._waiting.setdefault(seq, []).append(entry)
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + max(0.0, until - time.monotonic())):
                return True, await future
        except TimeoutError:
            return False, None
        finally:
            entries = self._waiting.get(seq, [])
            if entry in entries:
                entries.remove(entry)
            if not entries:
                self._waiting.pop(seq, None)

    def reserve_ms(self, seqs: Sequence[int]) -> int:
        """How long an answer to these rows should be kept for a waiting handler; 0 when none waits. Any thread."""
        now = time.monotonic()
        left = [until - now for seq in seqs for _, until in tuple(self._waiting.get(seq, ()))]
        longest = max(left, default=0.0)
        return int(longest * 1000) + _MARGIN_MS if longest > 0.02 else 0

    def resolve(self, seqs: Sequence[int], group: str | None) -> bool:
        """Hand the answer to every waiting handler; whether there was any."""
        taken = False
        for seq in seqs:
            for future, _ in self._waiting.get(seq, []):
                if not future.done():
                    future.set_result(group)
                    taken = True
        return taken
