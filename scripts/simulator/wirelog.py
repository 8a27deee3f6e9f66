"""What went over the wire, in memory only and capped (N-23), and the live stream the chat page listens to."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Any

CALLS_CAP = 10_000
EXCHANGES_CAP = 500
FEED_CAP = 2_000
TEXT_CAP = 65_536
"""Longest text kept of one callback body, in characters."""
CALL_TEXT_CAP = 16_384
"""The same for an API call."""


def clip(text: str, cap: int = TEXT_CAP) -> str:
    """The text, cut to what the wire log keeps."""
    return text if len(text) <= cap else text[:cap] + "…"


class WireLog:
    """API calls, callback exchanges and chat feed, newest kept, and the listeners of the live stream."""

    def __init__(self) -> None:
        self.calls: deque[dict[str, Any]] = deque(maxlen=CALLS_CAP)
        self.exchanges: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.feed: deque[dict[str, Any]] = deque(maxlen=FEED_CAP)
        self._calls_seen = 0
        self._feed_seen = 0
        self._listeners: set[asyncio.Queue[dict[str, Any]]] = set()

    def add_call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Record one API call; returns it with its number ``n``."""
        self._calls_seen += 1
        numbered = {"n": self._calls_seen, **call}
        self.calls.append(numbered)
        return numbered

    def add_exchange(self, exchange: dict[str, Any]) -> None:
        """Remember a callback exchange, by its id; it may still grow."""
        self.exchanges[exchange["id"]] = exchange
        while len(self.exchanges) > EXCHANGES_CAP:
            self.exchanges.popitem(last=False)

    def add_feed(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Put one bubble on a person's chat and tell the listeners."""
        self._feed_seen += 1
        numbered = {"seq": self._feed_seen, **entry}
        self.feed.append(numbered)
        self.publish("feed", numbered)
        return numbered

    def publish(self, kind: str, data: Any) -> None:
        """Tell every listener; a listener that does not keep up loses the oldest."""
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait({"kind": kind, "data": data})

    def listen(self) -> asyncio.Queue[dict[str, Any]]:
        """A new listener's queue; give it back with ``forget``."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=1000)
        self._listeners.add(queue)
        return queue

    def forget(self, queue: asyncio.Queue[dict[str, Any]]) -> None:
        """Stop a listener."""
        self._listeners.discard(queue)

    def clear(self) -> None:
        """Forget everything that was recorded."""
        self.calls.clear()
        self.exchanges.clear()
        self.feed.clear()
