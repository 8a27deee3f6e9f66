"""What one turn carries from step to step, and what its account and person allow."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.llm.router import DataPermission, RouteLog
from agent.ports import StopSignal
from agent.protocol import Capability, Conversation, Deadline, InboundMessage
from agent.services import AgentServices


@dataclass(slots=True)
class Run:
    """What one turn carries from step to step."""

    services: AgentServices
    message: InboundMessage
    where: Conversation
    deadline: Deadline
    capability: Capability
    stop: StopSignal
    turn_id: str
    started: float
    log: RouteLog = field(default_factory=RouteLog)


def permission(run: Run) -> DataPermission:
    """Which routes may see this person's words."""
    return DataPermission(run.services.settings.tenant(run.where.tenant_id), run.message.subject_kind)


def remembers(run: Run) -> bool:
    """Whether what is said here may be kept: trusted accounts that have memory (N-11, MEM-03)."""
    account = run.services.settings.account(run.where.account_id)
    return run.capability.trusted and (account is None or account.memory != "off")


def bot_name(run: Run) -> str | None:
    """The account's own mention, dropped before commands are matched."""
    account = run.services.settings.account(run.where.account_id)
    return account.bot_name if account is not None else None
