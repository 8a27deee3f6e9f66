"""The tools as one turn sees them: what this person may use, and a call that never raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agent.llm.base import ToolOffer
from agent.protocol import Capability, Conversation, InboundMessage, Reply, Write
from agent.services import AgentServices

if TYPE_CHECKING:
    from tools.base import ToolContext

Status = Literal["ok", "invalid", "denied", "awaiting_confirmation", "failed"]


@dataclass(frozen=True, slots=True)
class Called:
    """How a call went: what the model may know, the prompt a write is parked behind, and what the turn must write."""

    status: Status
    summary: str
    prompt: Reply | None = None
    writes: tuple[Write, ...] = ()


@dataclass(slots=True)
class Toolbox:
    """Tools of one turn. Plain-mode accounts have none (N-11)."""

    services: AgentServices
    message: InboundMessage
    where: Conversation
    capability: Capability
    turn_id: str | None = None
    _context: ToolContext | None = field(default=None, init=False)

    def offered(self) -> list[ToolOffer]:
        """What this person may use, in a stable order."""
        if not self.capability.trusted or self.services.registry is None:
            return []
        return [
            ToolOffer(
                spec.name,
                spec.description,
                spec.parameters,
                tuple(getattr(spec, "examples", ())),
                tuple(getattr(spec, "triggers", ())),
            )
            for spec in self.services.registry.offered(self.context())
        ]

    async def call(self, call_id: str, name: str, arguments: str) -> Called:
        """Validate and run a read, or park a write. ``call_id`` makes repeats of one call one action."""
        result = await self.services.registry.call(self.context(), name, arguments)
        return Called(result.status, result.summary, result.prompt, tuple(result.writes))

    def context(self) -> ToolContext:
        """Who calls, from where; one object a turn, so that what it parked is known to the next call."""
        if self._context is None:
            from agent.tool_context import tool_context

            self._context = tool_context(self.services, self.message, self.where, self.capability, self.turn_id)
        return self._context
