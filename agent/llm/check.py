"""Tries a route and tells what it can do: answer, stream, call tools, transcribe, how much it reads, and how fast."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from agent.llm.base import ChatMessage, ModelError, ModelReply, ToolOffer
from agent.llm.openai_compat import OpenAICompatible
from agent.llm.quirks import MOST_ADAPTATIONS
from agent.protocol import Deadline
from config.clock import Clock
from config.schema import ModelRoute

T = TypeVar("T")
_PROBE = ToolOffer(
    "get_time",
    "查询一个城市现在的时间",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
)
_HELLO = (ChatMessage("user", "只回复两个字：你好"),)
_ASK = (ChatMessage("user", "现在上海几点？请调用 get_time 工具查询。"),)


@dataclass(slots=True)
class RouteCheck:
    """What a route can do. ``None`` means: not tried, or the endpoint does not tell. ``trouble`` maps a probe to an error code
    and ``statuses`` to the HTTP status, if one came; no secrets, no bodies."""

    name: str
    model: str
    local: bool
    purposes: tuple[str, ...]
    context_chars: int = 0
    reachable: bool | None = None
    latency_ms: int | None = None
    answers: bool | None = None
    streams: bool | None = None
    calls_tools: bool | None = None
    transcribes: bool | None = None
    knows_model: bool | None = None
    context_tokens: int | None = None
    others: tuple[str, ...] = ()
    """Models the endpoint has when it does not have this one; the first few."""
    trouble: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether the route does what its purposes need."""
        talks = bool(self.answers) or set(self.purposes) <= {"transcribe"}
        return talks and self.transcribes is not False

    @property
    def fits(self) -> bool | None:
        """Whether a prompt of ``context_chars``, all Chinese, fits what the model reads; None when nobody tells."""
        return None if self.context_tokens is None else self.context_chars <= self.context_tokens

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-able."""
        lists = {"purposes": list(self.purposes), "others": list(self.others)}
        return {**asdict(self), **lists, "fits": self.fits, "usable": self.usable}


async def check_route(route: ModelRoute, clock: Clock, *, timeout_s: float = 20.0) -> RouteCheck:
    """Try a route with a few tiny requests. Never raises for what the endpoint does."""
    found = RouteCheck(route.name, route.model, route.local, tuple(route.purposes), route.context_chars)
    probes = _Probes(found, clock, min(timeout_s, route.timeout_s))
    whole, streaming = OpenAICompatible(route, clock, stream=False), OpenAICompatible(route, clock)
    try:
        await _check_list(probes, whole)
        if set(route.purposes) != {"transcribe"}:
            await _check_chat(probes, whole, streaming)
        if "transcribe" in route.purposes:
            heard = await probes.tried("transcribe", lambda until: whole.transcribe("silence.wav", _silence(), until))
            found.transcribes = heard is not None or found.trouble.get("transcribe") == "model_empty"
    finally:
        await whole.close()
        await streaming.close()
    heard_of = [code for code in found.trouble.values() if code not in ("model_connect", "model_timeout")]
    found.reachable = bool(found.answers or found.transcribes or found.knows_model is not None or heard_of)
    return found


@dataclass(slots=True)
class _Probes:
    found: RouteCheck
    clock: Clock
    limit_s: float

    async def tried(self, what: str, probe: Callable[[Deadline], Awaitable[T]]) -> T | None:
        """What the probe gives, asked again as the endpoint wants it; None when it fails, with the trouble noted."""
        for left in range(MOST_ADAPTATIONS, -1, -1):
            try:
                return await probe(Deadline(self.clock.monotonic() + self.limit_s))
            except ModelError as error:
                if error.again and left:
                    continue
                self.found.trouble[what] = error.code
                if error.status is not None:
                    self.found.statuses[what] = error.status
                return None
        return None


async def _check_list(probes: _Probes, whole: OpenAICompatible) -> None:
    found = probes.found
    names = await probes.tried("list", whole.list_models)
    if names is None:
        return
    own = next((name for name in (found.model, f"{found.model}:latest") if name in names), None)
    found.knows_model = own is not None
    if own is None:
        found.others = tuple(sorted(names)[:8])
    else:
        found.context_tokens = names[own]


async def _check_chat(probes: _Probes, whole: OpenAICompatible, streaming: OpenAICompatible) -> None:
    found, started = probes.found, probes.clock.monotonic()
    answered = await probes.tried("chat", lambda until: whole.complete(_HELLO, (), until))
    found.answers = answered is not None
    if answered is None:
        return
    found.latency_ms = round((probes.clock.monotonic() - started) * 1000)
    streamed = await probes.tried("stream", lambda until: streaming.complete(_HELLO, (), until))
    found.streams = streamed is not None and streaming.streams
    called = await probes.tried("tools", lambda until: streaming.complete(_ASK, (_PROBE,), until))
    found.calls_tools = called is not None and _called(called)


def _called(reply: ModelReply) -> bool:
    calls: Sequence[Any] = reply.tool_calls
    return any(call.name == _PROBE.name and "city" in json.loads(call.arguments) for call in calls)


def _silence() -> bytes:
    """Half a second of silence, 16 kHz mono WAV."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(16_000))
    return buffer.getvalue()
