"""Who may use which tool: customers only public ones, roles by exact lists, untrusted accounts nothing (N-11, N-12)."""

from __future__ import annotations

from config.schema import Settings, Tenant
from tools.base import Tool, ToolContext

OPERATOR = "operator"


def roles_of(settings: Settings, tenant: Tenant, account_id: str, user_id: str, subject_kind: str) -> frozenset[str]:
    """The roles whose list names exactly this person. Customers have none; an empty list
    gives its role to nobody. Operators have the role ``operator`` too."""
    if subject_kind != "user":
        return frozenset()
    lists = {**tenant.roles, OPERATOR: tenant.operators}
    return frozenset(role for role, people in lists.items() if any(p.is_member(account_id, user_id) for p in people))


def may_use(tool: Tool, context: ToolContext) -> bool:
    """Whether this person may use this tool here and now."""
    if not context.capability.trusted or tool.name in context.tenant.tools.disabled:
        return False
    if context.subject_kind != "user" and not tool.public:
        return False
    return not tool.roles or bool(tool.roles & context.roles)
