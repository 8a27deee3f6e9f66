"""Tries a route and tells what it can do: answer, stream, call tools, transcribe, and how fast."""

from __future__ import annotations

import io
import json
import wave
from dataclasses import asdict, dataclass
from typing import Any

from agent.llm.base import ChatMessage, ModelError, ToolOffer
from agent.llm.openai_compat import OpenAICompatible
from agent.protocol import Deadline
from config.clock import Clock
from config.schema import ModelRoute

_PROBE = ToolOffer(
    "get_time",
    "查询一个城市现在的时间",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
)


@dataclass(slots=True)
class RouteCheck:
    """What a route can do. ``None`` means: not tried. ``trouble`` maps a probe to an error kind; no secrets, no bodies."""

    name: str
    model: str
    local: bool
    purposes: tuple[str, ...]
    reachable: bool | None = None
    latency_ms: int | None = None
    answers: bool | None = None
    streams: bool | None = None
    calls_tools: bool | None = None
    transcribes: bool | None = None
    knows_model: bool | None = None
    trouble: dict[str, str] | None = None

    @property
    def usable(self) -> bool:
        """Whether the route does what its purposes need."""
        talks = bool(self.answers) or set(self.purposes) <= {"transcribe"}
        return talks and self.transcribes is not False

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-able."""
        return {**asdict(self), "purposes": list(self.purposes), "usable": self.usable}


async def check_route(route: ModelRoute, clock: Clock, *, timeout_s: float = 20.0) -> RouteCheck:
    """Try a route with a few tiny requests. Never raises for what the endpoint does."""
    found = RouteCheck(route.name, route.model, route.local, tuple(route.purposes), trouble={})
    whole = OpenAICompatible(route, clock, stream=False)
    streaming = OpenAICompatible(route, clock)
    limit_s = min(timeout_s, route.timeout_s)
    try:
        names = await _tried(found, "list", lambda: whole.list_models(Deadline(clock.monotonic() + limit_s)))
        found.knows_model = None if names is None else route.model in names
        if set(route.purposes) != {"transcribe"}:
            await _check_chat(found, whole, streaming, clock, limit_s)
        if "transcribe" in route.purposes:
            heard = await _tried(
                found, "transcribe", lambda: whole.transcribe("silence.wav", _silence(), Deadline(clock.monotonic() + limit_s))
            )
            found.transcribes = heard is not None or (found.trouble or {}).get("transcribe") == "model_empty"
        troubles = (found.trouble or {}).values()
        found.reachable = bool(found.answers or names or found.transcribes) or any(
            kind not in ("model_connect", "model_timeout") for kind in troubles
        )
    finally:
        await whole.close()
        await streaming.close()
    return found


async def _check_chat(
    found: RouteCheck, whole: OpenAICompatible, streaming: OpenAICompatible, clock: Clock, limit_s: float
) -> None:
    hello = (ChatMessage("user", "只回复两个字：你好"),)
    started = clock.monotonic()
    answered = await _tried(found, "chat", lambda: whole.complete(hello, (), Deadline(clock.monotonic() + limit_s)))
    found.answers = answered is not None
    if answered is None:
        return
    found.latency_ms = round((clock.monotonic() - started) * 1000)
    streamed = await _tried(found, "stream", lambda: streaming.complete(hello, (), Deadline(clock.monotonic() + limit_s)))
    found.streams = streamed is not None
    ask = (ChatMessage("user", "现在上海几点？请调用 get_time 工具查询。"),)
    called = await _tried(found, "tools", lambda: streaming.complete(ask, (_PROBE,), Deadline(clock.monotonic() + limit_s)))
    calls = called.tool_calls if called is not None else ()
    found.calls_tools = any(call.name == "get_time" and "city" in json.loads(call.arguments) for call in calls)


async def _tried(found: RouteCheck, what: str, probe: Any) -> Any:
    try:
        return await probe()
    except ModelError as error:
        if found.trouble is not None:
            found.trouble[what] = error.code
        return None


def _silence() -> bytes:
    """Half a second of silence, 16 kHz mono WAV."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(16_000))
    return buffer.getvalue()
