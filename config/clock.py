"""The only source of wall-clock time: UTC epoch milliseconds, movable in tests by a file."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

SHANGHAI = timezone(timedelta(hours=8), "Asia/Shanghai")
"""China has had no daylight saving since 1991, so the zone is a fixed offset."""

_REREAD_S = 0.02


class Clock:
    """Wall clock in milliseconds plus a monotonic clock in seconds.

    With ``offset_file`` (``YIZHAN_TEST_CLOCK``) the file's integer, milliseconds, is added to the wall clock; the
    file is looked at again at most every 20 ms. Every process that names the same file sees the same time.
    """

    def __init__(self, offset_file: Path | None = None) -> None:
        self._offset_file = offset_file
        self._offset_ms = 0
        self._read_at = 0.0
        self._mtime_ns = -1

    def now_ms(self) -> int:
        """Milliseconds since the UTC epoch."""
        return time.time_ns() // 1_000_000 + self._offset()

    def monotonic(self) -> float:
        """Seconds of a clock that never jumps, for durations within one process."""
        return time.monotonic()

    def local(self, epoch_ms: int | None = None) -> datetime:
        """The moment (default: now) as a datetime in Asia/Shanghai."""
        return datetime.fromtimestamp((self.now_ms() if epoch_ms is None else epoch_ms) / 1000, SHANGHAI)

    def _offset(self) -> int:
        if self._offset_file is None:
            return 0
        now = time.monotonic()
        if now - self._read_at < _REREAD_S:
            return self._offset_ms
        self._read_at = now
        try:
            mtime_ns = os.stat(self._offset_file).st_mtime_ns
            if mtime_ns != self._mtime_ns:
                self._offset_ms = int(self._offset_file.read_text().strip() or "0")
                self._mtime_ns = mtime_ns
        except (OSError, ValueError):
            pass  # mid-write or not there yet: the last known offset stays
        return self._offset_ms


class FixedClock(Clock):
    """A clock that moves only when told, for tests and replays."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__()
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        """The moment this clock was last set or advanced to."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds this clock was advanced by since it was made."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds
