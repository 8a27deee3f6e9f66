"""What the assistant needs from the gateway, handed in by the composition root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent.protocol import Conversation, InboundMessage, TurnResult


@dataclass(frozen=True, slots=True)
class WorkView:
    """One thing in progress or waiting, for 状态: the question's first characters, its state and age in seconds."""

    question: str
    state: str
    age_s: int


class GatewayOps(Protocol):
    """Operations on a conversation's queued and running work. ``where`` carries no valid fence here (fast lane)."""

    async def pull(self, where: Conversation) -> TurnResult:
        """Hand over the next parked answer or page (继续), or tell what is still running, or that nothing waits."""
        ...

    async def stop(self, where: Conversation) -> int:
        """Ask every running and waiting turn and job of this person's conversation to stop; returns how many."""
        ...

    async def work(self, where: Conversation) -> list[WorkView]:
        """What is running, waiting or parked, oldest first."""
        ...

    async def retry_source(self, where: Conversation) -> InboundMessage | None:
        """The newest message of this conversation that failed or was stopped, for 重试; None when there is none."""
        ...


class StopSignal(Protocol):
    """Tells a running turn that its person said 停止, or that its claim was lost."""

    @property
    def requested(self) -> bool:
        """True once the turn should end."""
        ...

    async def wait(self) -> None:
        """Return when the turn should end."""
        ...
