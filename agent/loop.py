"""The loop of one turn: model and tools take turns until there is an answer or a budget ends."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from agent import texts
from agent.claims import claims_a_write, without_claims
from agent.llm.base import ChatMessage, Model, ModelError, ModelReply, ToolCall, ToolOffer, estimate_tokens
from agent.llm.router import DataPermission, RouteLog, Router
from agent.ports import StopSignal
from agent.protocol import Deadline, JobRequest, Outcome, Reply, Write
from agent.toolbox import Called
from agent.waiting import first_of
from config.clock import Clock
from config.schema import Limits, Purpose

T = TypeVar("T")
_INVALID_LIMIT = 2
_PROMPT_LIMIT = 5
"""So many things a person is asked to confirm at once; a model that runs wild asks for no more."""


class Stopped(Exception):
    """The person said 停止, or the claim was lost."""


class ToolPort(Protocol):
    """What the loop needs of tools (agent.toolbox)."""

    def offered(self) -> list[ToolOffer]:
        """The tools this person may use."""
        ...

    async def call(self, call_id: str, name: str, arguments: str) -> Called:
        """Run or park one call."""
        ...


@dataclass(slots=True)
class LoopResult:
    """What came out: text of the answer, confirmation prompts in order, writes, and what it took."""

    text: str = ""
    outcome: Outcome = "answered"
    prompts: list[Reply] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    model_calls: int = 0
    tool_calls: int = 0
    error_code: str | None = None
    job: JobRequest | None = None
    """A long tool's call: the turn ends with a receipt and this is queued."""
    ended_by: str | None = None
    """The budget that ended it, for ``partial``."""


@dataclass(slots=True)
class Loop:
    """One turn's loop. ``run`` never raises ModelError: a failure is an outcome."""

    router: Router
    rule: Model
    tools: ToolPort
    limits: Limits
    clock: Clock
    deadline: Deadline
    stop: StopSignal
    permission: DataPermission
    purpose: Purpose
    log: RouteLog
    result: LoopResult = field(default_factory=LoopResult)
    _said: list[str] = field(default_factory=list)
    _found: list[str] = field(default_factory=list)
    _invalid: int = 0
    _question: str = ""
    _asked_for: str = ""
    _parked: dict[str, Called] = field(default_factory=dict)

    async def run(self, messages: Sequence[ChatMessage]) -> LoopResult:
        """Model, tools, model, ... until the answer; an honest partial answer at a budget's end."""
        history = list(messages)
        self._asked_for = history[-1].content if history else ""
        offers = self.tools.offered()
        try:
            while (ended := self._budget_ended(history)) is None:
                reply = await self._ask(history, offers)
                if not reply.tool_calls:
                    return self._answer(texts.cut_off(reply.text) if reply.finish_reason == "length" else reply.text)
                self._keep(reply.text)
                history.append(ChatMessage("assistant", reply.text, reply.tool_calls, thought=reply.thought))
                if await self._call_all(reply.tool_calls, history):
                    return self._asked()
                if self.result.job is not None:
                    return self._deferred()
                if self._invalid >= _INVALID_LIMIT and self._question:
                    return self._answer(self._question, outcome="asked")
            return self._partial(ended)
        except Stopped:
            self.result.outcome = "stopped"
            self.result.text = "\n".join(self._found)
            self.result.prompts, self.result.writes = [], []
            return self.result
        except ModelError as error:
            return self._failed(error)

    async def _ask(self, history: list[ChatMessage], offers: list[ToolOffer]) -> ModelReply:
        self.result.model_calls += 1
        return await self._stoppable(
            self.router.complete(
                history,
                offers,
                self.deadline,
                purpose=self.purpose,
                permission=self.permission,
                log=self.log,
                rule=self.rule,
            )
        )

    async def _call_all(self, calls: tuple[ToolCall, ...], history: list[ChatMessage]) -> bool:
        """Run the reads and park the writes of one batch, each on its own (C28); every call gets its result at once, so
        the history stays valid (C29). True when the turn ends here because everything waits for the person."""
        waiting = 0
        for call in calls:
            if self.result.tool_calls >= self.limits.tool_calls:
                called = Called("failed", texts.NO_CALLS_LEFT)
            else:
                called = await self._call(call)
            waiting += called.status == "awaiting_confirmation"
            history.append(ChatMessage("tool", called.summary, tool_call_id=call.id))
        return waiting == len(calls)

    async def _call(self, call: ToolCall) -> Called:
        key = f"{call.name}\n{_canonical(call.arguments)}"
        if key in self._parked:
            return self._parked[key]
        if self.result.job is not None:
            return Called("failed", texts.ONE_LONG_CALL)
        if len(self.result.prompts) >= _PROMPT_LIMIT:
            return Called("failed", texts.TOO_MANY_PROMPTS.format(count=_PROMPT_LIMIT))
        self.result.tool_calls += 1
        self.result.tools.append(call.name)
        called = await self._stoppable(self.tools.call(call.id, call.name, call.arguments))
        self.result.writes.extend(called.writes)
        if called.prompt is not None:
            self.result.prompts.append(called.prompt)
        if called.status == "awaiting_confirmation":
            self._parked[key] = called
        elif called.status == "invalid":
            self._invalid += 1
            self._question = called.summary if called.asks else self._question
        elif called.status == "deferred":
            self.result.job = called.job
        elif called.status == "ok":
            self._found.append(called.summary)
        return called

    async def _stoppable(self, work: Coroutine[Any, Any, T]) -> T:
        done = await first_of(work, self.stop)
        if done is None:
            raise Stopped
        return done

    def _budget_ended(self, history: Sequence[ChatMessage]) -> str | None:
        """The budget that has ended, or None. Tokens are the second fence (R-23): what the next call would read counts."""
        if self.result.model_calls >= self.limits.model_calls:
            return "model_calls"
        if self.result.tool_calls >= self.limits.tool_calls:
            return "tool_calls"
        used = self.log.prompt_tokens + self.log.completion_tokens
        if used + sum(estimate_tokens(message.content) for message in history) > self.limits.turn_tokens:
            return "tokens"
        return "time" if self.deadline.remaining_s(self.clock.monotonic()) <= 0 else None

    def _keep(self, text: str) -> None:
        text = text.strip()
        if text and not any(text in said for said in self._said):
            self._said = [said for said in self._said if said not in text] + [text]

    def _answer(self, text: str, outcome: Outcome = "answered") -> LoopResult:
        """Everything said in the run, each sentence once: text before a tool call is neither lost (DEL-31) nor doubled
        (DEL-32)."""
        self._keep(text)
        self.result.text = "\n".join(self._spoken())
        self.result.outcome = "asked" if self.result.prompts else outcome
        return self.result

    def _spoken(self) -> list[str]:
        """What the model said. What waits for the person is not said to be done (overview §7.14); where nothing waits, a
        model that says so is set right."""
        if self.result.prompts:
            return [text for text in map(without_claims, self._said) if text]
        claims = claims_a_write("\n".join(self._said), self._asked_for, self._found)
        return [*self._said, texts.NOTHING_WRITTEN] if claims else self._said

    def _asked(self) -> LoopResult:
        self.result.text = "\n".join(self._spoken())
        self.result.outcome = "asked"
        return self.result

    def _deferred(self) -> LoopResult:
        self.result.text = "\n".join([*self._spoken(), *self._found])
        self.result.outcome = "deferred"
        return self.result

    def _partial(self, why: str) -> LoopResult:
        self.result.ended_by = why
        reason = texts.PARTIAL_WHY[why]
        found = [*self._spoken(), *self._found]
        if found:
            body = "\n".join(found)
            self.result.text = f"{texts.PARTIAL_TITLE.format(why=reason)}\n{body}"
        else:
            self.result.text = texts.PARTIAL_NOTHING.format(why=reason)
        self.result.outcome = "partial"
        return self.result

    def _failed(self, error: ModelError) -> LoopResult:
        out_of_time = error.kind == "timeout" and self.deadline.remaining_s(self.clock.monotonic()) <= 0
        self.result.error_code = error.code
        if self._found or self.result.prompts:
            return self._partial("time") if out_of_time else self._cut_short(error)
        self.result.outcome = "failed"
        self.result.text = texts.failed(error.code)
        return self.result

    def _cut_short(self, error: ModelError) -> LoopResult:
        reason = texts.FAILED_REASONS.get(error.code, texts.FAILED_OTHER)
        self.result.text = "\n".join([texts.PARTIAL_TITLE.format(why=reason), *self._spoken(), *self._found])
        self.result.outcome = "partial"
        return self.result


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
