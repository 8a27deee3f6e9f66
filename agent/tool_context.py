"""Makes the context in which this turn's tools run: who asks, from where, with which rights."""

from __future__ import annotations

from agent.protocol import Capability, Conversation, InboundMessage
from agent.services import AgentServices
from config.errors import NotFound
from tools.base import ToolContext
from tools.policy import roles_of


def tool_context(
    services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability, turn_id: str | None
) -> ToolContext:
    """The context of one turn. Raises NotFound for a tenant that is not in the settings."""
    tenant = services.settings.tenant(where.tenant_id)
    if tenant is None:
        raise NotFound("the conversation's tenant is not in the settings")
    kind = message.subject_kind
    return ToolContext(
        tenant=tenant,
        account_id=where.account_id,
        conversation_id=where.conversation_id,
        session_id=where.session_id,
        user_id=where.user_id,
        id_type=where.id_type,
        subject_kind=kind,
        roles=roles_of(services.settings, tenant, where.account_id, where.user_id, kind),
        capability=capability,
        clock=services.clock,
        database=services.database,
        outbox=services.outbox,
        settings=services.settings,
        platform=services.platform,
        turn_id=turn_id,
        inbound_seq=where.inbound_seq,
        turn_fence=where.fence,
    )
