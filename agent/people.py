"""Who has which right: exact (account, user id) lists of the settings; empty means nobody."""

from __future__ import annotations

from agent.protocol import InboundMessage
from config.schema import Settings


def is_operator(settings: Settings, message: InboundMessage) -> bool:
    """Whether the sender is on the tenant's operators list. Customers never are (N-12)."""
    tenant = settings.tenant(message.tenant_id)
    if tenant is None or message.subject_kind != "user":
        return False
    return any(person.is_member(message.account_id, message.user_id) for person in tenant.operators)
