"""The one way to call a tool: parse → permission → schema → confirm or run → summarize → audit."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import Connection

from config.errors import YizhanError
from config.logging import get_logger, log
from tools import audit, choices, texts
from tools.arguments import parse_arguments
from tools.base import AskPerson, Checked, Prepared, Tool, ToolContext, ToolRefused, ToolResult
from tools.decided import Prompt
from tools.policy import may_use
from tools.proposals import Proposals
from tools.schema import Checker, Problem, SchemaError, compile_schema
from tools.schema_rules import canonical

_logger = get_logger(__name__)
Status = Literal["ok", "invalid", "denied", "awaiting_confirmation", "deferred", "failed"]


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call went. ``summary`` is what the model may know; ``prompt`` what a write is parked behind; ``writes`` must be
    committed with the turn. ``asks``: the summary is a question for the person. ``deferred``: the tool is a long one; ``job``
    holds what a job needs to make the call (``call_in_job``)."""

    status: Status
    summary: str
    prompt: Prompt | None = None
    writes: tuple[Callable[[Connection], None], ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False
    job: Mapping[str, Any] | None = None


class Registry:
    """All tools of one deployment; each call is for one person in one place."""

    def __init__(
        self, tools: Iterable[Tool], proposals: Proposals, *, for_tenant: Mapping[str, Iterable[Tool]] | None = None
    ) -> None:
        self._proposals = proposals
        self._shared = _indexed(tools)
        self._of_tenant = {tenant: _indexed(own) for tenant, own in (for_tenant or {}).items()}
        self._checkers: dict[int, Checker] = {}
        for tool in [*self._shared.values(), *(tool for own in self._of_tenant.values() for tool in own.values())]:
            self._checkers[id(tool)] = _compiled(tool)
        self._narrowed: dict[int, Tool] = {}

    def tools(self, tenant_id: str) -> list[Tool]:
        """Every tool of a tenant, in a stable order."""
        merged = {**self._shared, **self._of_tenant.get(tenant_id, {})}
        return [merged[name] for name in sorted(merged)]

    def get(self, tenant_id: str, name: str) -> Tool | None:
        """The tool with this exact name, or None."""
        return self._of_tenant.get(tenant_id, {}).get(name) or self._shared.get(name)

    def exact(self, tenant_id: str, name: str, arguments: Mapping[str, Any]) -> Tool | None:
        """The tool that these arguments call: for a family of presets, the one preset."""
        tool = self.get(tenant_id, name)
        return self._narrow(tool, arguments) if tool is not None else None

    def _narrow(self, tool: Tool, arguments: Mapping[str, Any]) -> Tool | None:
        try:
            narrowed = tool.narrow(arguments) if tool.narrow is not None else tool
        except Exception as error:  # noqa: BLE001 -- the boundary of one tool: there is none for these arguments
            log(_logger, "tool.crashed", tool=tool.name, code=type(error).__name__, error=error)
            return None
        if narrowed is not None and id(narrowed) not in self._checkers:
            self._checkers[id(narrowed)] = _compiled(narrowed)
            self._narrowed[id(narrowed)] = narrowed  # kept alive, so that its id stays its own
        return narrowed

    def offered(self, context: ToolContext) -> list[Tool]:
        """What this person may use here; nothing else is ever shown to a model."""
        return [tool for tool in self.tools(context.tenant_id) if may_use(tool, context)]

    def withheld(self, context: ToolContext) -> list[Tool]:
        """What exists here and only wants a role this person does not have."""
        off = context.tenant.tools.disabled
        return [tool for tool in self.tools(context.tenant_id) if tool.name not in off and not may_use(tool, context)]

    def examine(self, tool: Tool, arguments: Any) -> tuple[dict[str, Any], list[Problem]]:
        """The arguments as the tool would get them, and everything wrong with them."""
        return self._checkers[id(tool)].examine(arguments)

    async def call(
        self,
        context: ToolContext,
        name: str,
        arguments: str | Mapping[str, Any],
        *,
        call_id: str = "",
        supersedes: str | None = None,
    ) -> CallOutcome:
        """Run a read, or park a write behind its prompt. Never raises for what the model or the tool did wrong."""
        tool = self.get(context.tenant_id, name)
        if tool is None:
            return self._unknown(context, name)
        if not may_use(tool, context):
            text = texts.DENIED if context.capability.trusted else texts.NOT_TRUSTED
            return _denied(context, tool, text.format(title=tool.title or tool.name))
        parsed, bad = parse_arguments(arguments)
        cleaned, problems = ({}, [bad]) if bad is not None else self.examine(tool, parsed)
        exact = self._narrow(tool, cleaned) if not problems else None
        if exact is not None and exact is not tool:
            if not may_use(exact, context):
                return _denied(context, tool, texts.DENIED.format(title=exact.title or exact.name))
            tool = exact
            cleaned, problems = self.examine(tool, cleaned)
        if problems:
            return CallOutcome("invalid", invalid_text(tool, problems), asks=True)
        if tool.needs_confirmation:
            cleaned = with_defaults(tool, cleaned)
        context = replace(context, call_key=context.call_key or _call_key(context, tool, cleaned, call_id))
        try:
            prepared = await prepare_call(tool, context, cleaned)
            if tool.needs_confirmation:
                return await self._park(context, tool, prepared, call_id, supersedes)
        except AskPerson as error:
            if not error.options:
                return CallOutcome("invalid", error.user_text, asks=True)
            question = choices.question_text(error.user_text, error.options)
            keep = choices.offer(context, tool, error.user_text, error.options)
            return CallOutcome("invalid", question, writes=(keep,), asks=True)
        except ToolRefused as error:
            return _denied(context, tool, error.user_text)
        if tool.long and not context.in_job:
            wanted = {"tool": tool.name, "arguments": dict(prepared.arguments), "call_id": call_id}
            return CallOutcome("deferred", texts.DEFERRED.format(title=tool.title or tool.name), job=wanted)
        return await self._run(context, tool, prepared.arguments)

    async def call_in_job(self, context: ToolContext, job: Mapping[str, Any]) -> CallOutcome:
        """Make the call that was deferred, with every check anew."""
        name, arguments = str(job["tool"]), dict(job["arguments"])
        return await self.call(replace(context, in_job=True), name, arguments, call_id=str(job["call_id"]))

    async def _park(
        self, context: ToolContext, tool: Tool, prepared: Prepared, call_id: str, supersedes: str | None
    ) -> CallOutcome:
        key = f"{tool.name}\n{_digest(prepared.arguments)}"
        known = context.turn.proposed.get(key)
        if isinstance(known, CallOutcome):  # the model calls the same write twice: one action, one prompt
            return replace(known, prompt=None, writes=())
        again = self.examine(tool, prepared.arguments)[1]
        if again:
            return CallOutcome("invalid", invalid_text(tool, again), asks=True)
        proposal = await self._proposals.propose(context, tool, prepared, call_id=call_id, supersedes=supersedes)
        prompt = proposal.prompt
        summary = texts.AWAITING.format(number=prompt.number, summary=prompt.summary)
        outcome = CallOutcome("awaiting_confirmation", summary, prompt, (proposal.publish,))
        context.turn.proposed[key] = outcome
        log(_logger, "action.proposed", action_id=prompt.action_id, tool=tool.name, conversation=context.conversation_id)
        return outcome

    async def _run(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> CallOutcome:
        keyed = tool.tool_class != "read"
        if keyed:
            done = await context.database.read(lambda c: audit.replay(c, context.tenant_id, context.call_key))
            if done is not None:
                return CallOutcome("ok", done.summary, values=done.values)
        started = context.clock.monotonic()
        result, reason, code = await run_tool(tool, context, arguments)
        took_ms = round((context.clock.monotonic() - started) * 1000)
        log(_logger, "tool.called", tool=tool.name, ok=result is not None, code=code, ms=took_ms)

        def write(connection: Connection) -> None:
            audit.record(
                connection,
                audit.call_of(context, tool.name, tool.tool_class),
                arguments,
                decision="run",
                result=result,
                ok=result is not None,
                took_ms=took_ms,
                error_code=code,
                keyed=keyed and result is not None,
            )

        writes: tuple[Callable[[Connection], None], ...] = (write,)
        if keyed:  # it must be found again should this turn die and run once more
            await context.database.write(write)
            writes = ()
        if result is None:
            return CallOutcome("failed", texts.FAILED.format(title=tool.title or tool.name, reason=reason), writes=writes)
        return CallOutcome("ok", result.summary, writes=writes, values=result.values)

    def _unknown(self, context: ToolContext, name: str) -> CallOutcome:
        near = difflib.get_close_matches(name, [tool.name for tool in self.offered(context)], 1, 0.6)
        shown = name[:64]
        text = texts.UNKNOWN_TOOL_NEAR.format(name=shown, near=near[0]) if near else texts.UNKNOWN_TOOL.format(name=shown)
        return CallOutcome("invalid", text)


def with_defaults(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with what the tool declares for those left out: the person confirms these, too, so they are shown and kept
    (N-17). A default of null stands for "not given"."""
    declared = tool.parameters.get("properties", {})
    given = {name: schema["default"] for name, schema in declared.items() if isinstance(schema, Mapping) and "default" in schema}
    return {**{name: value for name, value in given.items() if value is not None}, **arguments}


async def prepare_call(tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    """The tool's own look at a call before it is proposed, and again right before it runs. Raises AskPerson or ToolRefused;
    whatever else goes wrong in it is a refusal, too (overview §7.5)."""
    if tool.prepare is None:
        return Prepared(arguments)
    try:
        async with asyncio.timeout(tool.timeout_s):
            return await tool.prepare(context, arguments)
    except (AskPerson, ToolRefused):
        raise
    except TimeoutError:
        raise ToolRefused("the preparation took too long", code="timeout", user_text=_not_ready(tool, texts.TIMED_OUT)) from None
    except YizhanError as error:
        raise ToolRefused(str(error), code=error.code, user_text=_not_ready(tool, error.user_text)) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- the boundary of one tool
        log(_logger, "tool.crashed", tool=tool.name, code=type(error).__name__, error=error)
        raise ToolRefused("the preparation failed", code="crashed", user_text=_not_ready(tool, texts.FAILED_REASON)) from None


def _not_ready(tool: Tool, reason: str) -> str:
    return texts.FAILED.format(title=tool.title or tool.name, reason=reason)


async def run_tool(tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> tuple[ToolResult | None, str, str | None]:
    """Run a tool once within its timeout and put its answer into words: (result, "", None) or (None, why, code).

    The boundary of foreign code: whatever a tool raises becomes a reason; nothing of it reaches the model but that.
    """
    try:
        async with asyncio.timeout(tool.timeout_s):
            return summarized(tool, arguments, await tool.run(context, arguments)), "", None
    except TimeoutError:
        return None, texts.TIMED_OUT, "timeout"
    except YizhanError as error:
        return None, storable(error.user_text), error.code
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- the boundary of one tool; its sys.exit() must not end ours
        log(_logger, "tool.crashed", tool=tool.name, code=type(error).__name__, error=error)
        return None, texts.FAILED_REASON, "crashed"


def summarized(tool: Tool, arguments: Mapping[str, Any], result: ToolResult) -> ToolResult:
    """The result with its summary: the tool's own sentence, or its template filled with arguments and values (S001-51)."""
    if result.summary or result.commit is not None:
        return replace(result, summary=storable(str(result.summary)))
    summary = texts.SUMMARY_MISSING.format(title=tool.title or tool.name)
    if tool.summary_template is not None:
        with contextlib.suppress(LookupError, ValueError, AttributeError, TypeError):
            summary = tool.summary_template.format(**{**arguments, **result.values})
    return replace(result, summary=storable(summary))


def storable(text: str) -> str:
    """A tool's words without what no database and no platform takes: NUL, and half a surrogate pair."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


async def checked(tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> Checked:
    """What the tool's ``check()`` finds out about a call that may have happened; anything but an answer is "unknown"."""
    if tool.check is None:
        return "unknown"
    try:
        async with asyncio.timeout(tool.timeout_s):
            found = await tool.check(context, arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- the boundary of one tool
        log(_logger, "tool.check_failed", tool=tool.name, code=type(error).__name__, error=error)
        return "unknown"
    return found if found in ("done", "not_done") else "unknown"


def invalid_text(tool: Tool, problems: list[Problem]) -> str:
    """What the model and the person are told about arguments that do not fit (S001-54)."""
    lines = [f"{problem.message}{f'（{problem.suggestion}）' if problem.suggestion else ''}" for problem in problems[:5]]
    return texts.INVALID.format(title=tool.title or tool.name, problems="；".join(lines))


def _denied(context: ToolContext, tool: Tool, text: str) -> CallOutcome:
    def write(connection: Connection) -> None:
        call = audit.call_of(context, tool.name, tool.tool_class)
        audit.record(connection, call, {}, decision="denied", result=None, ok=False, took_ms=0, error_code="denied")

    return CallOutcome("denied", text, writes=(write,))


def _call_key(context: ToolContext, tool: Tool, arguments: Mapping[str, Any], call_id: str) -> str:
    seq = context.inbound_seq if context.inbound_seq is not None else context.turn_id or "x"
    return f"call:{context.conversation_id}:{seq}:{tool.name}:{_digest(arguments)}"


def _digest(arguments: Mapping[str, Any]) -> str:

    return hashlib.sha256(canonical(dict(arguments)).encode()).hexdigest()[:24]


def _indexed(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in found:
            raise SchemaError(f"two tools are called {tool.name}")
        found[tool.name] = tool
    return found


def _compiled(tool: Tool) -> Checker:
    try:
        return compile_schema(tool.parameters)
    except SchemaError as error:
        raise SchemaError(f"tool {tool.name}: {error}") from None
