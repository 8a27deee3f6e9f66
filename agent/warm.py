"""Loads what the first turn would otherwise wait for: model clients where there are routes, else what the rule model reads by."""

from __future__ import annotations

import asyncio

from agent.rule.triggers import trigger_pattern
from agent.services import AgentServices
from memory.segment import segmenter_for


async def warm(services: AgentServices) -> None:
    """Load in threads; call it once the process is ready. The dictionary costs 100 MB, so only the demo, whose first
    visitor should not wait a second, loads it before it is needed."""
    if services.settings.models:
        await services.router.warm()
        return
    await asyncio.to_thread(_learn_triggers, services)
    if services.settings.demo:
        await segmenter_for(services.settings.data_dir).ready()


def _learn_triggers(services: AgentServices) -> None:
    """Compile every trigger (0.1 s for all together)."""
    for tenant in services.settings.tenants:
        for tool in services.registry.tools(tenant.id):
            for trigger in tool.triggers:
                trigger_pattern(trigger)
