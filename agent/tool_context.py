"""Makes the context in which this turn's tools run: who asks, from where, with which rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.protocol import Capability, Conversation, InboundMessage
from agent.services import AgentServices

if TYPE_CHECKING:
    from tools.base import ToolContext


def tool_context(
    services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability, turn_id: str | None
) -> ToolContext:
    """The context of one turn."""
    from tools.base import ToolContext

    return ToolContext()
