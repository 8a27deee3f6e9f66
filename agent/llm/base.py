"""The Model protocol and what travels through it: messages, tool calls, replies, and the ways a model can fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from agent.protocol import Deadline
from config.errors import YizhanError

Role = Literal["system", "user", "assistant", "tool"]
ErrorKind = Literal["connect", "timeout", "busy", "server", "refused", "empty", "bad_body", "bad_tool_json", "not_allowed"]
"""connect: nobody answered; busy: 429; server: 5xx; refused: another 4xx; bad_body: no JSON, a cut stream; not_allowed: no
route may see this data."""
Reason = Literal["too_long", "filtered", "key", "quota", "no_model", "no_tools", "redirect"]
"""Why an endpoint refused, where it says so; the person and ``models check`` are told accordingly."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asks for. ``arguments`` is JSON text that parses to an object (M05)."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Thought:
    """What a reasoning model thought before a reply, and what it signed its calls with. Never shown or stored; some endpoints
    refuse the next call of the same turn unless they get it back word for word, so it is returned to the route it came from,
    in the field it came in (``signatures``: one a call, in order)."""

    route: str
    field: str = ""
    text: str = ""
    signatures: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt. A ``tool`` message answers the call ``tool_call_id``."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    thought: Thought | None = None


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool as it is offered to a model. ``title``, ``labels`` (Chinese names of parameters), ``examples``, ``triggers`` and
    ``writes`` are for the person and the rule model and are not sent anywhere."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    examples: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    writes: bool = False
    """Whether a call would change something, and so asks first."""

    @property
    def can_do(self) -> str:
        """What it does, in one line for a person."""
        return self.title or self.description.splitlines()[0]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one call; ``estimated`` when the endpoint did not tell and we counted characters."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model said: text a person may see (agent.llm.visible), tool calls, or both. ``finish_reason`` is ``length`` when
    the text was cut at the endpoint's limit."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str | None = None
    thought: Thought | None = None


class ModelError(YizhanError):
    """A model call that gave no usable answer. ``kind`` decides whether another route may be tried."""

    def __init__(
        self,
        kind: ErrorKind,
        detail: str = "",
        *,
        status: int | None = None,
        reason: Reason | None = None,
        draft: ModelReply | None = None,
        again: str = "",
        rest_s: float = 0.0,
    ) -> None:
        super().__init__(f"model call failed: {kind}{f' ({detail})' if detail else ''}", code=f"model_{reason or kind}")
        self.kind: ErrorKind = kind
        self.reason = reason
        self.status = status
        self.draft = draft
        """The unusable reply itself: what it cost, and what the model can be shown to repair (``bad_tool_json``)."""
        self.again = again
        """Not empty when the client has changed how it asks and the same call is worth one more try; says what for."""
        self.rest_s = rest_s
        """How long the endpoint asked to be left alone (Retry-After)."""
        self.retryable = kind not in ("refused", "not_allowed")


class Model(Protocol):
    """Something that completes a conversation."""

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], deadline: Deadline) -> ModelReply:
        """The next assistant message. Raises ModelError; never returns an empty reply; never outlives ``deadline``."""
        ...


@runtime_checkable
class Transcriber(Protocol):
    """Something that turns a recording into text."""

    async def transcribe(self, file_name: str, audio: bytes, deadline: Deadline) -> str:
        """The words. Raises ModelError."""
        ...


def estimate_tokens(text: str) -> int:
    """A cautious token count of mixed Chinese and English: one per three bytes of UTF-8, so one per CJK character and one per
    three ASCII ones."""
    return (len(text.encode("utf-8", "replace")) + 2) // 3
