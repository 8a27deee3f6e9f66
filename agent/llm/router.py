"""Which model answers: ordered routes, local first, strict about which data may go where, every try on record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent import texts
from agent.llm.base import ChatMessage, Model, ModelError, ModelReply, ToolOffer, Transcriber
from agent.protocol import Deadline, SubjectKind
from config.clock import Clock
from config.schema import ModelRoute, Purpose, Settings, Tenant

REST_FAILURES = 3
REST_WINDOW_S = 60.0
RULE_ROUTE = "rule"
_REPAIR = "上面的工具参数不是合法的 JSON 对象。请重新给出这次调用，arguments 必须是完整的 JSON 对象。"


@dataclass(frozen=True, slots=True)
class DataPermission:
    """Whose words a call carries, and so which routes may see them (R-40)."""

    tenant: Tenant | None
    subject: SubjectKind

    def allows(self, route: ModelRoute) -> bool:
        """Local routes always; external ones with the tenant's opt-in, and a second one for customers' words."""
        if route.local:
            return True
        if self.tenant is None or not self.tenant.allow_external_models:
            return False
        return self.subject == "user" or self.tenant.customer_data_external


@dataclass(slots=True)
class RouteLog:
    """Every call of one turn: route, reason it was taken, how it ended, milliseconds, tokens, cost in millionths."""

    tries: list[dict[str, Any]] = field(default_factory=list)
    route: str = ""
    model: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_micro: int = 0
    model_ms: int = 0
    crossed: bool = False
    """True when an external route answered because a local one failed or rests: the person is told (M09)."""


class Router:
    """Chooses and calls routes. One per process; remembers which routes rest."""

    def __init__(self, settings: Settings, clock: Clock, make: Callable[[ModelRoute, Clock], Model] | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._make = make or _open_route
        self._models: dict[str, Model] = {}
        self._failures: dict[str, deque[float]] = {}

    def routes(self, purpose: Purpose, permission: DataPermission) -> list[ModelRoute]:
        """The allowed routes for a purpose in order of trying: settings order, local ones first. Resting ones come last."""
        if permission.subject == "customer" and permission.tenant is not None and not permission.tenant.customers_use_model:
            return []
        fit = [route for route in self._settings.models if purpose in route.purposes and permission.allows(route)]
        return sorted(fit, key=lambda route: (self.resting(route.name), not route.local))

    def resting(self, name: str) -> bool:
        """Whether a route failed three times within the last minute."""
        failures = self._failures.get(name)
        if not failures:
            return False
        while failures and self._clock.monotonic() - failures[0] > REST_WINDOW_S:
            failures.popleft()
        return len(failures) >= REST_FAILURES

    def context_chars(self, purpose: Purpose, permission: DataPermission) -> int:
        """The smallest context, in characters, among the routes that may be asked."""
        return min((route.context_chars for route in self.routes(purpose, permission)), default=24_000)

    def describe(self) -> str:
        """One line for 状态."""
        names = [route.name for route in self._settings.models if "chat" in route.purposes]
        return texts.STATUS_MODEL.format(names="、".join(names)) if names else texts.STATUS_RULE

    def model(self, route: ModelRoute) -> Model:
        """The client of a route, made once."""
        if route.name not in self._models:
            self._models[route.name] = self._make(route, self._clock)
        return self._models[route.name]

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolOffer],
        deadline: Deadline,
        *,
        purpose: Purpose,
        permission: DataPermission,
        log: RouteLog,
        rule: Model,
    ) -> ModelReply:
        """The reply of the first route that gives one. Without any allowed route the rule model answers.

        Raises the last ModelError when every allowed route failed, and at once on a 4xx that is not 429: that is our
        mistake or a refusal, and asking somebody else would hide it.
        """
        routes = self.routes(purpose, permission) or (self.routes("chat", permission) if purpose != "chat" else [])
        if not routes:
            reply = await rule.complete(messages, tools, deadline)
            log.tries.append({"route": RULE_ROUTE, "reason": "no_route" if self._settings.models else "offline", "outcome": "ok"})
            log.route = log.route or RULE_ROUTE
            return reply
        failed: ModelError | None = None
        for route in routes:
            reason = "first" if failed is None else f"after_{failed.kind}"
            if failed is not None and self.resting(route.name):
                continue
            try:
                reply = await self._ask(route, messages, tools, deadline, log, reason)
            except ModelError as error:
                self._note_failure(route.name, error)
                if error.kind == "refused" or deadline.remaining_s(self._clock.monotonic()) <= 0:
                    raise
                failed = error
                continue
            self._failures.pop(route.name, None)
            log.crossed = log.crossed or (not route.local and any(other.local for other in routes))
            return reply
        raise failed if failed is not None else ModelError("connect", "every route rests")

    async def transcribe(self, file_name: str, audio: bytes, deadline: Deadline, permission: DataPermission) -> str:
        """The words of a recording from the first ``transcribe`` route that hears them. Raises ModelError."""
        failed = ModelError("not_allowed", "no route may transcribe this")
        for route in self.routes("transcribe", permission):
            try:
                return await self._hear(route, file_name, audio, deadline)
            except ModelError as error:
                self._note_failure(route.name, error)
                if error.kind == "refused":
                    raise
                failed = error
        raise failed

    async def _hear(self, route: ModelRoute, file_name: str, audio: bytes, deadline: Deadline) -> str:
        model = self.model(route)
        if not isinstance(model, Transcriber):
            raise ModelError("not_allowed", "this route cannot transcribe")
        own = Deadline(min(deadline.at, self._clock.monotonic() + route.timeout_s))
        return await model.transcribe(file_name, audio, own)

    async def warm(self) -> None:
        """Make every route's client now, so that the first turn need not wait for it."""
        for route in self._settings.models:
            opening = getattr(self.model(route), "open", None)
            if opening is not None:
                await opening()

    async def close(self) -> None:
        """Close every client."""
        for model in self._models.values():
            close = getattr(model, "close", None)
            if close is not None:
                await close()
        self._models.clear()

    async def _ask(
        self,
        route: ModelRoute,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolOffer],
        deadline: Deadline,
        log: RouteLog,
        reason: str,
    ) -> ModelReply:
        now = self._clock.monotonic()
        own = Deadline(min(deadline.at, now + route.timeout_s))
        try:
            return await self._try(route, messages, tools, own, log, reason)
        except ModelError as error:
            if error.kind == "bad_tool_json":
                draft = error.draft.text if error.draft is not None else ""
                repaired = [*messages, ChatMessage("assistant", draft or "…"), ChatMessage("user", _REPAIR)]
                return await self._try(route, repaired, tools, own, log, "repair")
            if error.status == 404 and "conversation not found" in str(error):
                return await self._try(route, messages, tools, own, log, "conversation_gone")
            raise

    async def _try(
        self,
        route: ModelRoute,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolOffer],
        deadline: Deadline,
        log: RouteLog,
        reason: str,
    ) -> ModelReply:
        started = self._clock.monotonic()
        entry: dict[str, Any] = {"route": route.name, "model": route.model, "reason": reason}
        log.tries.append(entry)
        log.route, log.model = route.name, route.model
        try:
            reply = await self.model(route).complete(messages, tools, deadline)
        except ModelError as error:
            entry["outcome"] = error.kind
            if error.status is not None:
                entry["status"] = error.status
            raise
        finally:
            took = round((self._clock.monotonic() - started) * 1000)
            entry["ms"] = took
            log.model_ms += took
        entry.update(outcome="ok", prompt_tokens=reply.usage.prompt_tokens, completion_tokens=reply.usage.completion_tokens)
        log.prompt_tokens += reply.usage.prompt_tokens
        log.completion_tokens += reply.usage.completion_tokens
        log.cost_micro += round(reply.usage.prompt_tokens * route.price_in + reply.usage.completion_tokens * route.price_out)
        return reply

    def _note_failure(self, name: str, error: ModelError) -> None:
        if error.kind != "refused":
            self._failures.setdefault(name, deque(maxlen=16)).append(self._clock.monotonic())


def _open_route(route: ModelRoute, clock: Clock) -> Model:
    from agent.llm.openai_compat import OpenAICompatible

    return OpenAICompatible(route, clock)
