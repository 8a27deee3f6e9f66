"""An OpenAI-compatible endpoint: the openai SDK as wire client only, one total deadline, nothing taken on trust."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from agent.llm.base import ChatMessage, ModelError, ModelReply, Thought, ToolOffer, Usage, estimate_tokens
from agent.llm.calls import checked_calls
from agent.llm.quirks import Quirks
from agent.llm.refusals import of_status
from agent.llm.sse import MAX_BYTES, events, events_of
from agent.llm.stream import Assembled, StreamJoiner
from agent.llm.visible import says_nothing, visible, without_thoughts
from agent.llm.written import written_calls
from agent.protocol import Deadline
from config.clock import Clock
from config.schema import ModelRoute

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_CONNECT_S = 5.0
_AFTER_FINISH_S = 1.0
"""How long the usage and the end mark of a finished answer are waited for."""
_AFTER_DONE_S = 0.2
"""How long the end of a body is waited for after the end mark, so that the connection can be used again."""
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")


class OpenAICompatible:
    """One route. The connection pool is opened at the first call and kept; so is what the endpoint would not take."""

    def __init__(self, route: ModelRoute, clock: Clock, *, stream: bool = True) -> None:
        self._route = route
        self._clock = clock
        self._stream = stream
        self._quirks = Quirks()
        self._client: AsyncOpenAI | None = None

    @property
    def streams(self) -> bool:
        """Whether answers are streamed: asked for, and not refused so far."""
        return self._stream and not self._quirks.whole

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], deadline: Deadline) -> ModelReply:
        """See Model.complete. The deadline bounds the whole exchange, not single reads (M02)."""
        left_s = deadline.remaining_s(self._clock.monotonic())
        if left_s <= 0:
            raise ModelError("timeout", "no time left")
        try:
            async with asyncio.timeout(left_s):
                answer = await self._exchange(messages, tools)
        except TimeoutError:
            raise ModelError("timeout", f"no answer within {left_s:.1f} s") from None
        return _reply(answer, messages, tools, self._route.name)

    async def transcribe(self, file_name: str, audio: bytes, deadline: Deadline) -> str:
        """The words of a recording (``/audio/transcriptions``). Raises ModelError; empty text is a failure."""
        try:
            async with asyncio.timeout(deadline.remaining_s(self._clock.monotonic())):
                answer = await self._guarded(self._transcription(file_name, audio))
        except TimeoutError:
            raise ModelError("timeout", "no transcript in time") from None
        text = getattr(answer, "text", None)
        if not isinstance(text, str) or says_nothing(text):
            raise ModelError("empty", "no transcript")
        return visible(text).strip()

    async def list_models(self, deadline: Deadline) -> dict[str, int | None]:
        """Model ids the endpoint names, each with its context length in tokens if told; for ``yizhan models check``."""

        async def fetch() -> dict[str, int | None]:
            return {str(model.id): _context_tokens(model) async for model in (await self._open()).models.list()}

        try:
            async with asyncio.timeout(deadline.remaining_s(self._clock.monotonic())):
                names: dict[str, int | None] = await self._guarded(fetch())
                return names
        except TimeoutError:
            raise ModelError("timeout", "no list in time") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def open(self) -> None:
        """Make the client ahead of the first call: the SDK and its certificates take about a second to load."""
        await self._open()

    async def _open(self) -> AsyncOpenAI:
        if self._client is None:
            made = await asyncio.to_thread(self._build)
            self._client = self._client or made
        return self._client

    def _build(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        # Below WARNING the SDK logs whole prompts, and importing it may turn that on.
        logging.getLogger("openai").setLevel(logging.WARNING)
        limits = Timeout(self._route.timeout_s, connect=min(_CONNECT_S, self._route.timeout_s))
        client = AsyncOpenAI(
            api_key=self._route.api_key.get_secret_value() if self._route.api_key else "none",
            base_url=self._route.base_url,
            max_retries=0,
            timeout=limits,
            organization="",
            project="",
            # A redirect would carry the prompt to a host nobody named, and so would a proxy for a local model.
            http_client=DefaultAsyncHttpxClient(timeout=limits, follow_redirects=False, trust_env=not self._route.local),
        )
        _ = client.chat.completions  # a lazy import of the SDK's
        return client

    async def _transcription(self, file_name: str, audio: bytes) -> Any:
        client = await self._open()
        extra = dict(self._route.extra_body)
        return await client.audio.transcriptions.create(model=self._route.model, file=(file_name, audio), extra_body=extra)

    async def _exchange(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer]) -> Assembled:
        request: dict[str, Any] = {
            "model": self._route.model,
            "messages": [_wire(message, self._route.name) for message in messages],
            "max_tokens": self._route.max_output_tokens,
            **self._route.extra_body,
        }
        if tools:
            request["tools"] = [_wire_tool(tool) for tool in tools]
        if self._stream:
            request["stream"] = True
            request["stream_options"] = {"include_usage": True}
        request = self._quirks.apply(request)
        answer: Assembled = await self._guarded(self._send(request), request)
        return answer

    async def _send(self, request: dict[str, Any]) -> Assembled:
        raw = await _post(await self._open(), request)
        joiner = StreamJoiner()
        async with raw:
            await _read(raw.response, joiner)
        return joiner.finish()

    async def _guarded(self, call: Any, request: Mapping[str, Any] | None = None) -> Any:
        """Await ``call`` with the SDK's errors mapped to ours; nothing of a body or a URL is kept."""
        import openai

        try:
            return await call
        except ModelError:
            raise
        except openai.APITimeoutError:
            raise ModelError("timeout", "the endpoint was too slow") from None
        except openai.APIConnectionError:
            raise ModelError("connect", "the endpoint cannot be reached") from None
        except openai.APIStatusError as error:
            raise self._refusal(error.status_code, error.body, error.response.headers.get("retry-after"), request) from None
        except openai.APIError:
            raise ModelError("server", "the endpoint reported an error") from None
        except (ValueError, TypeError, AttributeError, LookupError, openai.OpenAIError) as error:
            raise ModelError("bad_body", f"unreadable answer: {type(error).__name__}") from None

    def _refusal(self, status: int, body: object, retry_after: str | None, request: Mapping[str, Any] | None) -> ModelError:
        error = of_status(status, body, retry_after)
        if request is None or not self._quirks.learn(status, body, request):
            return error
        gone = status == 404  # the only 404 an endpoint can be asked around
        detail = "conversation not found" if gone else f"HTTP {status}"
        return ModelError(
            error.kind, detail, status=status, reason=error.reason, again="conversation_gone" if gone else "adapted"
        )


async def _post(client: AsyncOpenAI, request: dict[str, Any]) -> Any:
    """The request as it is, and the response unread. ``chat.completions.create`` would first walk the request by its type
    hints (20 ms of a two-call turn) and then fit the answer to types that few servers keep to."""
    from openai import AsyncStream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    return await client.post(
        "/chat/completions", cast_to=ChatCompletion, body=request, stream=True, stream_cls=AsyncStream[ChatCompletionChunk]
    )


async def _read(response: Any, joiner: StreamJoiner) -> None:
    """Read an answer, streamed or whole, by what the body is rather than by what its type claims."""
    kind = response.headers.get("content-type", "").lower()
    if "html" in kind:
        raise ModelError("bad_body", "a web page instead of an answer")
    library = importlib.import_module(type(response).__module__.partition(".")[0])  # httpx or httpx2, whichever the SDK uses
    try:
        async with aclosing(response.aiter_bytes()) as chunks:
            if "event-stream" in kind:
                await _read_stream(chunks, joiner)
            else:
                _take_body(await _whole(chunks), joiner)
    except library.TimeoutException:
        raise ModelError("timeout", "the endpoint was too slow") from None
    except library.HTTPError:
        if not joiner.finished:
            raise ModelError("bad_body", "the body was cut") from None


async def _read_stream(chunks: AsyncIterator[bytes], joiner: StreamJoiner) -> None:
    """Read to the end mark. Once the answer has come to its end, a server that keeps the line open is not waited for."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as patience, aclosing(events(chunks)) as stream:
            async for event in stream:
                if event.done and not joiner.done:
                    joiner.done = True
                    patience.reschedule(loop.time() + _AFTER_DONE_S)
                elif not joiner.done:
                    joiner.add(event.data, is_error=event.is_error)
                if joiner.finished and patience.when() is None:
                    patience.reschedule(loop.time() + _AFTER_FINISH_S)
    except TimeoutError:
        if not patience.expired():
            raise


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_BYTES:
            raise ModelError("bad_body", "endless answer")
    return bytes(body)


def _take_body(body: bytes, joiner: StreamJoiner) -> None:
    text = body.decode("utf-8-sig", "replace").strip()
    if not text:
        raise ModelError("empty", "an empty body")
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, dict):
            joiner.add_whole(value)
            return
    if not text.startswith((":", "data:", "event:", "id:", "{")):
        raise ModelError("bad_body", "no JSON")
    for event in events_of(body):
        if event.done:
            joiner.done = True
        else:
            joiner.add(event.data, is_error=event.is_error)


def _context_tokens(model: Any) -> int | None:
    extra = getattr(model, "model_extra", None) or {}
    meta = extra.get("meta")
    told = [extra.get(name) for name in _CONTEXT_FIELDS] + [meta.get("n_ctx_train") if isinstance(meta, Mapping) else None]
    return next((value for value in told if isinstance(value, int) and not isinstance(value, bool) and value > 0), None)


def _wire(message: ChatMessage, route: str) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.thought is not None and message.thought.route == route:
        if message.thought.field:
            wire[message.thought.field] = message.thought.text
        for call, signature in zip(wire.get("tool_calls", ()), message.thought.signatures, strict=False):
            if signature is not None:
                call["extra_content"] = signature
    return wire


def _wire_tool(tool: ToolOffer) -> Mapping[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _reply(answer: Assembled, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], route: str) -> ModelReply:
    usage = answer.usage
    if usage is None:
        prompt = sum(estimate_tokens(message.content) for message in messages)
        written = sum(estimate_tokens(call.arguments) for call in answer.calls)
        usage = Usage(prompt, estimate_tokens(answer.text) + written, estimated=True)
    offers = {tool.name: tool for tool in tools}
    said = written_calls(without_thoughts(answer.text), offers)
    text = visible(said.text)
    calls = answer.calls or said.calls
    draft = ModelReply(text, (), usage, answer.finish_reason)
    if said.broken and not answer.calls:
        raise ModelError("bad_tool_json", "a tool call written as text", draft=draft)
    if says_nothing(text) and not calls:
        raise ModelError("empty", "the model said nothing", draft=draft)
    name, words = answer.thought or ("", "")
    thought = Thought(route, name, words, tuple(call.signature for call in calls))
    return ModelReply(text, checked_calls(calls, draft, offers), usage, answer.finish_reason, thought)
