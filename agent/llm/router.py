"""Which model answers: ordered routes, local first, strict about which data may go where, every try on record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from agent import texts
from agent.llm.base import ChatMessage, Model, ModelError, ModelReply, ToolOffer, Transcriber, Usage
from agent.llm.health import Health
from agent.llm.quirks import MOST_ADAPTATIONS
from agent.protocol import Deadline, SubjectKind
from config.clock import Clock
from config.schema import ModelRoute, Purpose, Settings, Tenant

T = TypeVar("T")
RULE_ROUTE = "rule"
_REPAIR = (
    "上面的工具调用读不懂。需要工具就按接口的工具调用格式重新给出，arguments 必须是完整的 JSON 对象，不要写在正文里；"
    "不需要工具就直接回答。"
)


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
        self._health = Health(clock)

    def routes(self, purpose: Purpose, permission: DataPermission) -> list[ModelRoute]:
        """The allowed routes for a purpose in order of trying: settings order, local ones first. Resting ones come last."""
        return sorted(self._wanted(purpose, permission), key=lambda route: self.resting(route.name))

    def resting(self, name: str) -> bool:
        """Whether a route is left alone for now (agent.llm.health)."""
        return self._health.resting(name)

    def _wanted(self, purpose: Purpose, permission: DataPermission) -> list[ModelRoute]:
        """The allowed routes as they would be tried if none rested."""
        if permission.subject == "customer" and permission.tenant is not None and not permission.tenant.customers_use_model:
            return []
        fit = [route for route in self._settings.models if purpose in route.purposes and permission.allows(route)]
        return sorted(fit, key=lambda route: not route.local)

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

        Raises the last ModelError when every allowed route failed, and at once on a refusal (a 4xx that is not 429): that is
        our mistake or a decision, and asking somebody else would hide it. A route with another behind it gets at most half of
        the time left, so that a hang costs no answer; while all rest, one is tried anyway.
        """
        wanted = self._wanted(purpose, permission)
        if purpose in ("hard", "summary"):
            wanted += [route for route in self._wanted("chat", permission) if route not in wanted]
        if not wanted:
            reply = await rule.complete(messages, tools, deadline)
            log.tries.append({"route": RULE_ROUTE, "reason": "no_route" if self._settings.models else "offline", "outcome": "ok"})
            log.route = log.route or RULE_ROUTE
            return reply

        async def ask(route: ModelRoute, shared: Deadline, reason: str) -> ModelReply:
            return await self._ask(route, messages, tools, shared, log, reason)

        route, reply = await self._first(wanted, deadline, ask)
        log.crossed = log.crossed or (not route.local and any(one.local for one in wanted[: wanted.index(route)]))
        return reply

    async def _first(
        self, wanted: list[ModelRoute], deadline: Deadline, use: Callable[[ModelRoute, Deadline, str], Awaitable[T]]
    ) -> tuple[ModelRoute, T]:
        """The first of some routes that does its work, and what came of it; see ``complete`` for the errors."""
        awake = [route for route in wanted if not self.resting(route.name)] or wanted[:1]
        failed: ModelError | None = None
        for position, route in enumerate(awake):
            if failed is not None and self.resting(route.name):
                continue  # it began to rest while the others were asked
            reason = "first" if failed is None else f"after_{failed.kind}"
            shared = self._share(deadline) if position + 1 < len(awake) else deadline
            try:
                return route, await use(route, shared, reason)
            except ModelError as error:
                if not error.retryable or deadline.remaining_s(self._clock.monotonic()) <= 0:
                    raise
                failed = error
        raise failed if failed is not None else ModelError("connect", "every route rests")

    def _share(self, deadline: Deadline) -> Deadline:
        now = self._clock.monotonic()
        return Deadline(now + deadline.remaining_s(now) / 2)

    async def transcribe(
        self, file_name: str, audio: bytes, deadline: Deadline, permission: DataPermission, log: RouteLog
    ) -> str:
        """The words of a recording from the first ``transcribe`` route that hears them. Raises ModelError."""
        wanted = self._wanted("transcribe", permission)
        if not wanted:
            raise ModelError("not_allowed", "no route may transcribe this")

        async def hear(route: ModelRoute, shared: Deadline, reason: str) -> str:
            entry = {"route": route.name, "model": route.model, "reason": reason, "for": "transcribe", "outcome": "cancelled"}
            log.tries.append(entry)
            return await self._noted(route, shared, partial(self._hear, route, file_name, audio, entry))

        return (await self._first(wanted, deadline, hear))[1]

    async def _hear(self, route: ModelRoute, file_name: str, audio: bytes, entry: dict[str, Any], deadline: Deadline) -> str:
        model, started = self.model(route), self._clock.monotonic()
        try:
            if not isinstance(model, Transcriber):
                raise ModelError("not_allowed", "this route cannot transcribe")
            words = await model.transcribe(file_name, audio, deadline)
            entry["outcome"] = "ok"
            return words
        except ModelError as error:
            entry["outcome"] = error.kind
            raise
        finally:
            entry["ms"] = round((self._clock.monotonic() - started) * 1000)

    async def _noted(self, route: ModelRoute, deadline: Deadline, call: Callable[[Deadline], Awaitable[T]]) -> T:
        """One use of a route within its own time, its outcome noted for its health."""
        started = self._clock.monotonic()
        own = Deadline(min(deadline.at, started + route.timeout_s))
        self._health.begin(route.name)
        try:
            done = await call(own)
        except ModelError as error:
            self._health.bad(route.name, error, own.at - started, route.timeout_s)
            raise
        finally:
            self._health.end(route.name)
        self._health.good(route.name)
        return done

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
        return await self._noted(route, deadline, lambda own: self._ask_until_read(route, messages, tools, own, log, reason))

    async def _ask_until_read(
        self,
        route: ModelRoute,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolOffer],
        own: Deadline,
        log: RouteLog,
        reason: str,
    ) -> ModelReply:
        """Ask; again where the endpoint would not take the request as it was; once more where a tool call was broken."""
        repaired = False
        for left in range(MOST_ADAPTATIONS, -1, -1):
            try:
                return await self._try(route, messages, tools, own, log, reason)
            except ModelError as error:
                if error.again and left and (error.again, reason) != ("conversation_gone", "conversation_gone"):
                    reason = error.again
                elif error.kind == "bad_tool_json" and not repaired:
                    repaired, reason = True, "repair"
                    draft = error.draft.text if error.draft is not None else ""
                    messages = [*messages, ChatMessage("assistant", draft or "…"), ChatMessage("user", _REPAIR)]
                else:
                    raise
        raise ModelError("refused", "the endpoint takes the call in no form")

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
        entry: dict[str, Any] = {"route": route.name, "model": route.model, "reason": reason, "outcome": "cancelled"}
        log.tries.append(entry)
        log.route, log.model = route.name, route.model
        used: Usage | None = None
        try:
            reply = await self.model(route).complete(messages, tools, deadline)
            entry["outcome"], used = "ok", reply.usage
            return reply
        except ModelError as error:
            entry["outcome"] = error.kind
            if error.status is not None:
                entry["status"] = error.status
            if error.reason is not None:
                entry["why"] = error.reason
            used = error.draft.usage if error.draft is not None else None
            raise
        finally:
            entry["ms"] = round((self._clock.monotonic() - started) * 1000)
            log.model_ms += entry["ms"]
            if used is not None:
                self._count(route, used, entry, log)

    def _count(self, route: ModelRoute, used: Usage, entry: dict[str, Any], log: RouteLog) -> None:
        """What a call cost, whether or not its answer could be used."""
        entry.update(prompt_tokens=used.prompt_tokens, completion_tokens=used.completion_tokens)
        log.prompt_tokens += used.prompt_tokens
        log.completion_tokens += used.completion_tokens
        log.cost_micro += round(used.prompt_tokens * route.price_in + used.completion_tokens * route.price_out)


def _open_route(route: ModelRoute, clock: Clock) -> Model:
    from agent.llm.openai_compat import OpenAICompatible

    return OpenAICompatible(route, clock)
