"""The tools as one turn sees them: what this person may use, and a call that never raises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agent.llm.base import ToolOffer
from agent.protocol import Capability, Conversation, InboundMessage, JobRequest, Reply, Write
from agent.services import AgentServices
from agent.tool_context import tool_context
from tools.decided import Prompt

if TYPE_CHECKING:
    from tools.base import Tool, ToolContext

Status = Literal["ok", "invalid", "denied", "awaiting_confirmation", "deferred", "failed"]


@dataclass(frozen=True, slots=True)
class Called:
    """How a call went: what the model may know, the prompt a write is parked behind, and what the turn must write."""

    status: Status
    summary: str
    prompt: Reply | None = None
    writes: tuple[Write, ...] = ()
    asks: bool = False
    """The summary is a question for the person (S001-54)."""
    job: JobRequest | None = None
    """``deferred``: the long call, to be queued."""


@dataclass(slots=True)
class Toolbox:
    """Tools of one turn. Plain-mode accounts have none (N-11)."""

    services: AgentServices
    message: InboundMessage
    where: Conversation
    capability: Capability
    turn_id: str | None = None
    replaces: Mapping[str, str] = field(default_factory=dict)
    """Tool → open action that a new call of it takes the place of: the person asked to change it."""
    _context: ToolContext | None = field(default=None, init=False)

    def offered(self) -> list[ToolOffer]:
        """What this person may use, in a stable order."""
        if not self.capability.trusted or self.services.registry is None:
            return []
        return [offer_of(tool) for tool in self.services.registry.offered(self.context())]

    def withheld(self) -> list[ToolOffer]:
        """What this employee may not use for want of a role, so that the rule model can say so; no model is offered it, and
        customers are not told of it (N-12)."""
        if not self.capability.trusted or self.services.registry is None or self.message.subject_kind != "user":
            return []
        return [offer_of(tool) for tool in self.services.registry.withheld(self.context())]

    async def call(self, call_id: str, name: str, arguments: str) -> Called:
        """Validate and run a read, or park a write. ``call_id`` makes repeats of one call one action."""
        outcome = await self.services.registry.call(
            self.context(), name, arguments, call_id=call_id, supersedes=self.replaces.get(name)
        )
        prompt = None if outcome.prompt is None else prompt_reply(outcome.prompt)
        summary = outcome.summary
        if outcome.status == "awaiting_confirmation":
            number = outcome.prompt.number if outcome.prompt is not None else None
            state = {"status": outcome.status, "number": number, "note": summary}
            summary = json.dumps({key: value for key, value in state.items() if value is not None}, ensure_ascii=False)
        job = None if outcome.job is None else JobRequest("tool", outcome.job)
        return Called(outcome.status, summary, prompt, tuple(outcome.writes), outcome.asks, job)

    def context(self) -> ToolContext:
        """Who calls, from where; one object a turn, so that what it parked is known to the next call."""
        if self._context is None:
            self._context = tool_context(self.services, self.where, self.capability, self.turn_id)
        return self._context


def offer_of(tool: Tool) -> ToolOffer:
    """A tool as it is offered to a model."""
    return ToolOffer(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        examples=tool.examples,
        triggers=tool.triggers,
        title=tool.title,
        labels=tool.labels,
        writes=tool.needs_confirmation,
    )


def prompt_reply(prompt: Prompt) -> Reply:
    """A confirmation prompt as a message of its own: a button card or a menu where it fits, else the text that says it all."""
    if prompt.card is not None:
        return Reply(prompt.text, "template_card", prompt.card, "confirm_prompt", prompt.action_id)
    if prompt.menu is not None:
        return Reply(prompt.text, "msgmenu", prompt.menu, "confirm_prompt", prompt.action_id)
    return Reply(prompt.text, source="confirm_prompt", action_id=prompt.action_id)
