"""Loads what the first turn would otherwise wait for: model clients where there are routes, else the dictionary."""

from __future__ import annotations

from agent.services import AgentServices
from memory.segment import segmenter_for


async def warm(services: AgentServices) -> None:
    """Load in threads; call it once the process is ready."""
    if services.settings.models:
        await services.router.warm()
    else:
        await segmenter_for(services.settings.data_dir).ready()
