"""Who answers a proposal, and what comes of an answer: the plain values that travel between chat and confirmations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from memory.keys import person_key


@dataclass(frozen=True, slots=True)
class Actor:
    """The person who answers, as the verified callback named them (C15), and the message they answer with.

    ``said_at_ms`` is the platform's CreateTime (whole seconds) by our clock, ``received_at_ms`` when we got it; ``menu_item_id``
    is set when a menu item was clicked (N-16).
    """

    tenant_id: str
    account_id: str
    conversation_id: str
    session_id: str
    user_id: str
    id_type: str
    message_key: str
    said_at_ms: int
    received_at_ms: int
    menu_item_id: str | None = None
    inbound_seq: int | None = None

    @property
    def person(self) -> str:
        """The id as it is compared."""
        return person_key(self.id_type, self.user_id)


class Decision(Protocol):
    """What the message says (agent.intents.Decision)."""

    @property
    def kind(self) -> Literal["confirm", "reject", "edit"]:
        """What is decided."""
        ...

    @property
    def number(self) -> int | None:
        """The action's number, if named."""
        ...

    @property
    def code(self) -> str | None:
        """The 4-digit code, if given."""
        ...

    @property
    def strength(self) -> Literal["strong", "weak"]:
        """Whether the word names the act or only agrees."""
        ...

    @property
    def all(self) -> bool:
        """Every open action is meant."""
        ...

    @property
    def edit_text(self) -> str | None:
        """What to change."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """A confirmation prompt: the text that says everything, and the same as a button card or a menu where it fits."""

    text: str
    action_id: str
    number: int
    summary: str
    card: Mapping[str, Any] | None = None
    menu: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OpenAction:
    """An action that waits, as others may know it."""

    id: str
    number: int
    tool: str
    arguments: Mapping[str, Any]
    summary: str
    revision: int
    minutes_left: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What to tell the person. ``execute`` names an action that is confirmed now and must be run; its outcome is then the
    answer; ``long``: it may take longer than a person waits. ``edit`` names the action that a change is meant for. An answer
    with nothing in it means: ordinary talk."""

    text: str = ""
    prompt: Prompt | None = None
    execute: str | None = None
    long: bool = False
    edit: OpenAction | None = None
    outcome: str = "answered"
    publish: tuple[Any, ...] = field(default=())
