"""Finds the reference data beside the checkout; tests that read it skip, saying so, where it is not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared"


def shared_path(relative: str) -> Path | None:
    """The file, or None when the data folder is not on this machine."""
    root = Path(os.environ.get("YIZHAN_SHARED") or _DEFAULT)
    path = root / relative
    return path if path.exists() else None


def shared_json(relative: str) -> Any:
    """Parsed JSON of a reference file; skips the calling module or test when it is absent."""
    path = shared_path(relative)
    if path is None:
        pytest.skip(f"reference data {relative} is not beside the checkout (YIZHAN_SHARED)", allow_module_level=True)
    return json.loads(path.read_text("utf-8"))
