"""Loads what the first turn would otherwise wait for: model clients where there are routes; in the demo the dictionary."""

from __future__ import annotations

from agent.services import AgentServices
from memory.segment import segmenter_for


async def warm(services: AgentServices) -> None:
    """Load in threads; call it once the process is ready. The dictionary costs 100 MB, so only the demo, whose first
    visitor should not wait a second, loads it before it is needed."""
    if services.settings.models:
        await services.router.warm()
    elif services.settings.demo:
        await segmenter_for(services.settings.data_dir).ready()
