"""What a tool is: its declaration, the context it runs in, what it returns, and the decorator that makes one of a function."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from sqlalchemy import Connection

from config.clock import Clock
from config.database import Database
from config.errors import YizhanError
from config.ports import Outbox
from config.schema import Settings, Tenant
from tools import texts
from tools.ports import Platform

ToolClass = Literal["read", "operation", "script"]
Risk = Literal["normal", "high"]


class Capability(Protocol):
    """What the account's channel can do for this person now (agent.protocol.Capability)."""

    @property
    def can_push(self) -> bool:
        """Messages may be sent later, unasked."""
        ...

    @property
    def can_card(self) -> bool:
        """Button cards may be sent."""
        ...

    @property
    def can_menu(self) -> bool:
        """Menu messages may be sent."""
        ...

    @property
    def trusted(self) -> bool:
        """False for plain-mode accounts (N-11)."""
        ...


class ToolFailed(YizhanError):
    """The tool did not do it, and says so: definite, nothing happened. ``user_text`` tells the person why."""

    code = "tool_failed"


class ToolRefused(YizhanError):
    """The call is understood and refused before anything happens; ``user_text`` says why and what to do instead."""

    code = "tool_refused"


class OutcomeUnknown(YizhanError):
    """The call may have arrived; nobody can say what it did."""

    code = "outcome_unknown"


def phrases(text: str) -> tuple[str, ...]:
    """Triggers written as one text with 、 between them; what stands in a trigger is told in agent/rule/triggers.py."""
    return tuple(text.split("、"))


@dataclass(frozen=True, slots=True)
class Option:
    """One numbered answer to a question: how it reads, and the whole call it means."""

    label: str
    arguments: Mapping[str, Any]


class AskPerson(YizhanError):
    """The call cannot be decided without the person: ``user_text`` is the question (two people of one name), ``options``
    the answers to choose from, if they are few and known."""

    code = "ask_person"

    def __init__(self, message: str = "", *, user_text: str, options: Sequence[Option] = ()) -> None:
        super().__init__(message, user_text=user_text)
        self.options = tuple(options)


@dataclass(slots=True)
class TurnLog:
    """What this turn has done with tools so far; shared by all its calls."""

    numbers: list[int] = field(default_factory=list)
    proposed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where and for whom a tool runs. ``call_key`` is the idempotency key of this very call; a second run of the same
    call carries the same key. ``roles`` are the person's, from exact settings lists."""

    tenant: Tenant
    account_id: str
    conversation_id: str
    session_id: str
    user_id: str
    id_type: str
    subject_kind: Literal["user", "customer"]
    roles: frozenset[str]
    capability: Capability
    clock: Clock
    database: Database
    outbox: Outbox
    settings: Settings
    platform: Platform
    call_key: str = ""
    turn_id: str | None = None
    inbound_seq: int | None = None
    turn_fence: int | None = None
    in_job: bool = False
    """A job of its own runs this call; a long tool runs nowhere else."""
    turn: TurnLog = field(default_factory=TurnLog)

    @property
    def tenant_id(self) -> str:
        """The company whose data this call may touch."""
        return self.tenant.id

    @property
    def public_url(self) -> str | None:
        """Where signed links may point; None: offer none (N-24)."""
        return self.settings.http.public_url

    @property
    def owner_key(self) -> str:
        """The person as the owner of things: account, kind of id, id."""
        return f"{self.account_id}:{self.id_type}:{self.user_id}"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to. ``summary`` is all the model and the person learn (S001-51, S001-53); ``raw`` goes to the audit
    row only. ``commit``: the effect itself, run inside the transaction that stores the outcome, so that both happen or
    neither; it returns the final result."""

    summary: str = ""
    raw: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """Fields for ``summary_template`` and for skill steps."""
    commit: Callable[[Connection], ToolResult] | None = None


Checked = Literal["done", "not_done", "unknown"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call ready to be proposed: the final arguments (names resolved), and how the prompt words single values."""

    arguments: Mapping[str, Any]
    shown: Mapping[str, str] = field(default_factory=dict)


Run = Callable[[ToolContext, Mapping[str, Any]], Awaitable[ToolResult]]
Prepare = Callable[[ToolContext, Mapping[str, Any]], Awaitable[Prepared]]
Check = Callable[[ToolContext, Mapping[str, Any]], Awaitable[Checked]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. ``title`` and ``labels`` are Chinese, for the person; ``description`` and ``parameters`` for the model.

    ``roles``: the person needs one of them (none listed: every employee). ``public``: customers may use it too (N-12).
    ``idempotent``: running the same ``call_key`` again changes nothing more. ``check`` finds out after a crash.
    ``prepare`` runs before the proposal: resolves names, may refuse or ask. ``narrow`` gives the exact tool for these
    arguments (one preset of many) with its own class, roles, schema and timeout; same name. Templates are ``str.format``
    over arguments and result values.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Run
    title: str = ""
    tool_class: ToolClass = "read"
    read_only: bool = False
    idempotent: bool = False
    check: Check | None = None
    prepare: Prepare | None = None
    narrow: Callable[[Mapping[str, Any]], Tool | None] | None = None
    roles: frozenset[str] = frozenset()
    public: bool = False
    timeout_s: float = 10.0
    long: bool = False
    """It may take longer than a person waits: it runs as a job of its own, and a receipt is told at once."""
    risk: Risk = "normal"
    summary_template: str | None = None
    confirm_template: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = "1"
    examples: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()

    @property
    def needs_confirmation(self) -> bool:
        """Operations always; scripts unless they only read."""
        return self.tool_class == "operation" or (self.tool_class == "script" and not self.read_only)


def fingerprint(*parts: object) -> str:
    """A tool's ``version`` made of what it would do: one that is declared anew meanwhile is not what was confirmed."""
    return hashlib.sha256(json.dumps(parts, default=str, ensure_ascii=False).encode()).hexdigest()[:12]


def tool(
    function: Callable[..., Any] | None = None, *, name: str | None = None, tool_class: ToolClass = "operation", **options: Any
) -> Any:
    """Make a Tool of a function: the name, the type hints and the docstring are its declaration. A tool that only reads says
    ``tool_class="read"``; one whose author forgot the class asks before it runs.

    The docstring's first paragraph is the description; a line ``name: text`` describes a parameter. A parameter named
    ``context`` gets the ToolContext and is no argument; every other one arrives as its hint says (a ``date`` as a date). The
    function may be async or plain (then it runs in a thread) and returns a ToolResult, a string (the summary), or a dict for
    ``summary_template``.
    """

    def make(target: Callable[..., Any]) -> Tool:
        text, notes = _read_docstring(inspect.getdoc(target) or "")
        model = _model(target, notes)
        options.setdefault("labels", {key: note for key, note in notes.items() if not note.isascii() and len(note) <= 12})
        return Tool(
            name=name or target.__name__,
            description=text,
            parameters={key: value for key, value in model.model_json_schema().items() if key != "title"},
            run=_runner(target, model, options.get("summary_template")),
            tool_class=tool_class,
            **options,
        )

    return make if function is None else make(function)


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    first, _, rest = text.partition("\n\n")
    notes = {}
    for line in rest.splitlines():
        key, colon, note = line.strip().replace("：", ":", 1).partition(":")
        if colon and key.isidentifier():
            notes[key] = note.strip()
    return " ".join(first.split()), notes


def _model(target: Callable[..., Any], notes: Mapping[str, str]) -> type[BaseModel]:
    hints = get_type_hints(target, include_extras=True)
    fields: dict[str, Any] = {}
    for key, parameter in inspect.signature(target).parameters.items():
        if key == "context":
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[key] = (hints.get(key, str), Field(default, description=notes.get(key, "")))
    model: type[BaseModel] = create_model(target.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    return model


def _runner(target: Callable[..., Any], model: type[BaseModel], template: str | None) -> Run:
    wants_context = "context" in inspect.signature(target).parameters

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        try:
            typed = model.model_validate(dict(arguments))
        except ValidationError:
            raise ToolFailed("the arguments do not fit the hints", code="invalid", user_text=texts.NOT_FITTING) from None
        given = {name: getattr(typed, name) for name in typed.model_fields_set}
        given.update({"context": context} if wants_context else {})
        if inspect.iscoroutinefunction(target):
            found = await target(**given)
        else:
            found = await asyncio.to_thread(target, **given)
        if isinstance(found, ToolResult):
            return found
        if isinstance(found, Mapping):
            return ToolResult(summary="" if template else str(dict(found)), raw=dict(found), values=dict(found))
        return ToolResult(summary="" if found is None else str(found), raw=found)

    return run
