"""The only source of wall-clock time: UTC epoch milliseconds, movable in tests by a file."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from sqlalchemy import Connection

from config import lease

SHANGHAI = timezone(timedelta(hours=8), "Asia/Shanghai")
"""China has had no daylight saving since 1991, so the zone is a fixed offset."""

REREAD_S = 0.02
"""How old a clock's knowledge of its offset file may be; whoever moves the file waits as long before saying so."""


class Clock:
    """Wall clock in milliseconds plus a monotonic clock in seconds.

    With ``offset_file`` (``YIZHAN_TEST_CLOCK``) the file's integer, milliseconds, is added to the wall clock; the
    file is looked at again at most every 20 ms. Every process that names the same file sees the same time.
    """

    def __init__(self, offset_file: Path | None = None) -> None:
        self._offset_file = offset_file
        self._offset_ms = 0
        self._read_at = 0.0
        self._seen = (-1, -1)

    def now_ms(self) -> int:
        """Milliseconds since the UTC epoch."""
        return time.time_ns() // 1_000_000 + self._offset()

    def shared_ms(self, connection: Connection) -> int:
        """The wall clock that every process of the deployment reads alike: PostgreSQL's own there, this machine's on SQLite
        (N-08). For moments that one process stores and another one compares."""
        if connection.dialect.name == "postgresql":
            return lease.now_ms(connection) + self._offset()
        return self.now_ms()

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
        if now - self._read_at < REREAD_S:
            return self._offset_ms
        self._read_at = now
        try:
            found = os.stat(self._offset_file)
            seen = (found.st_mtime_ns, found.st_ino)  # two moves may share a tick of the file system's clock
            if seen != self._seen:
                self._offset_ms = int(self._offset_file.read_text().strip() or "0")
                self._seen = seen
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

    def shared_ms(self, connection: Connection) -> int:
        """The same moment for every process of a test."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds this clock was advanced by since it was made."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds
