"""What lower floors need from upper ones, as small protocols; the composition root hands in the real thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be sent, before it is split and frozen. One draft becomes one outbox group.

    ``target`` is None for the conversation's own person, else {"users": [...]}, {"webhook": name}, ...
    ``action_id`` marks a confirmation prompt; ``final`` the final answer to an inbound message.
    """

    idempotency_key: str
    tenant_id: str
    account_id: str
    conversation_id: str
    user_id: str
    session_id: str | None
    cause: Literal["inbound", "job", "push", "action", "reminder", "notice"]
    cause_id: str
    kind: str = "text"
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    source: str = "fixed"
    label: str | None = None
    target: Mapping[str, Any] | None = None
    action_id: str | None = None
    final: bool = False
    not_before_ms: int | None = None
    expires_at_ms: int | None = None
    reserve_ms: int = 0
    """> 0: somebody waits to take this passively; delivery leaves it alone for that long (N-03)."""


@dataclass(frozen=True, slots=True)
class LastOutgoing:
    """The newest message that went out to a conversation."""

    action_id: str | None
    delivered: bool
    sent_at_ms: int | None


class Outbox(Protocol):
    """Where messages to people are put; delivery happens elsewhere."""

    def put(self, connection: Connection, draft: Draft) -> str:
        """Store the draft's parts inside the caller's transaction; returns the group id. A known idempotency key stores
        nothing and returns the existing group."""
        ...

    def newest(self, connection: Connection, conversation_id: str) -> LastOutgoing | None:
        """The newest outgoing message of the conversation, by any way (N-15)."""
        ...

    def delivered(
        self, connection: Connection, action_id: str, *, after_ms: int | None = None, until_ms: int | None = None
    ) -> bool:
        """Whether a prompt for this action has reached the person as a whole; where they are given: later than ``after_ms``,
        not later than ``until_ms``."""
        ...

    def undeliverable_prompts(self, connection: Connection, since_ms: int, limit: int) -> list[str]:
        """Actions whose prompt was given up since then and reached nobody (N-15)."""
        ...

    def cancel_action_prompt(self, connection: Connection, action_id: str) -> int:
        """Withdraw what has not been sent of an action's prompt; returns how many rows."""
        ...

    def parked_count(self, connection: Connection, conversation_id: str) -> int:
        """How many messages wait for 继续 in this conversation."""
        ...


class Bell(Protocol):
    """Wakes whoever waits for rows of a queue. A lost, late or doubled ring is harmless."""

    async def ring(self, queue: str, key: str) -> None:
        """Say that row ``key`` of ``queue`` is ready; never raises, returns within a second. Call it after the commit."""
        ...


class Complete(Protocol):
    """A model call for lower floors (summaries, extraction)."""

    async def __call__(self, system: str, text: str, *, purpose: str, timeout_s: float) -> str:
        """The model's answer as text; raises YizhanError when no route answered."""
        ...
