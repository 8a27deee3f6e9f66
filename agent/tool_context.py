"""Makes the context in which this turn's tools run: who asks, from where, with which rights."""

from __future__ import annotations

from agent.protocol import Capability, Conversation
from agent.services import AgentServices
from tools.base import ToolContext
from tools.context import Contexts, Place


def tool_context(services: AgentServices, where: Conversation, capability: Capability, turn_id: str | None) -> ToolContext:
    """The context of one turn. Raises NotFound for a tenant or account that is not in the settings."""
    contexts = Contexts(
        services.settings,
        services.clock,
        services.database,
        services.outbox,
        capability_of=lambda account_id: capability,
        platform=services.platform,
    )
    place = Place(where.tenant_id, where.account_id, where.conversation_id, where.session_id, where.user_id, where.id_type)
    return contexts.of(place, capability=capability, turn_id=turn_id, inbound_seq=where.inbound_seq, turn_fence=where.fence)
