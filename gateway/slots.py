"""Fair slots: at most N turns at once, and no tenant holds more than half of them while another waits (N-09)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """A counting semaphore that knows tenants; whoever waits longest and may run goes first."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._held: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def hold(self, tenant_id: str) -> AsyncIterator[None]:
        """Wait for a slot of this tenant and hold it for the block."""
        await self._acquire(tenant_id)
        try:
            yield
        finally:
            self._held[tenant_id] -= 1
            self._grant()

    async def _acquire(self, tenant_id: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((tenant_id, turn))
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._held[tenant_id] -= 1
            self._waiting = [item for item in self._waiting if item[1] is not turn]
            self._grant()
            raise

    def _grant(self) -> None:
        self._waiting = [item for item in self._waiting if not item[1].done()]
        while self._waiting and self._held.total() < self._total:
            chosen = next((item for item in self._waiting if self._may_run(item[0])), None)
            if chosen is None:
                return
            self._waiting.remove(chosen)
            self._held[chosen[0]] += 1
            chosen[1].set_result(None)

    def _may_run(self, tenant_id: str) -> bool:
        others_wait = any(waiting != tenant_id for waiting, _ in self._waiting)
        return not others_wait or self._held[tenant_id] < max(1, self._total // 2)
