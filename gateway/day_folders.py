"""Folders of files, one a day below a root, so that old files go a folder at a time (N-10, N-21)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from config.clock import Clock

MEDIA, OUTGOING = "media", "outgoing"
"""Below the data folder: what people sent, and what programs gave us to send."""

_DAY_MS = 86_400_000
_NAME = re.compile(r"\d{4}-?\d{2}-?\d{2}")
"""As ``day_folder`` writes it; folders of media were once named without the hyphens."""


def day_folder(root: Path, clock: Clock, at_ms: int | None = None) -> Path:
    """The folder of the day of ``at_ms`` (now), which may not exist yet."""
    return root / f"{clock.local(at_ms):%Y-%m-%d}"


def remove_old(root: Path, clock: Clock, keep_days: float) -> int:
    """Remove the folders of days before the last ``keep_days``; returns how many. Blocks; whatever else lies there stays."""
    oldest = _plain(day_folder(root, clock, clock.now_ms() - round(keep_days * _DAY_MS)))
    found = root.iterdir() if root.is_dir() else ()
    old = [folder for folder in found if _NAME.fullmatch(folder.name) and _plain(folder) < oldest]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return len(old)


def _plain(folder: Path) -> str:
    return folder.name.replace("-", "")
