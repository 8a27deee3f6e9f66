"""Loads what the first turn would otherwise wait for: the model SDK where there are routes, else the dictionary."""

from __future__ import annotations

import importlib

from config.schema import Settings
from memory.segment import segmenter_for


def warm(settings: Settings) -> None:
    """Import and load; takes about a second, so call it in a thread after the process is ready."""
    if settings.models:
        for name in ("httpx", "openai", "openai.types.chat"):
            importlib.import_module(name)
    segmenter_for(settings.data_dir).load()
