"""The virtual clock: real time plus an offset that is written to a file the product's processes read too."""

from __future__ import annotations

import os
from pathlib import Path

from config.clock import Clock


class Timekeeper:
    """Wall-clock milliseconds that can be moved forward.

    The file holds the offset as one integer of milliseconds (``config/clock.py`` reads it through ``test_clock``).
    """

    def __init__(self, file: Path | None = None) -> None:
        self._clock = Clock()
        self._file = file
        self.offset_ms = 0
        if file is not None and file.exists():
            self.offset_ms = int(file.read_text(encoding="ascii").strip() or "0")

    def now_ms(self) -> int:
        """Milliseconds since the UTC epoch, moved by the offset."""
        return self._clock.now_ms() + self.offset_ms

    def now_s(self) -> int:
        """Whole seconds, as CreateTime and timestamps carry them."""
        return self.now_ms() // 1000

    def advance(self, seconds: float) -> int:
        """Move time forward (or back) and return the new offset in milliseconds."""
        return self.set_offset(self.offset_ms + round(seconds * 1000))

    def set_offset(self, offset_ms: int) -> int:
        """Write the offset, atomically, and use it."""
        self.offset_ms = offset_ms
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_name(self._file.name + ".part")
            part.write_text(str(offset_ms), encoding="ascii")
            os.replace(part, self._file)
        return offset_ms
