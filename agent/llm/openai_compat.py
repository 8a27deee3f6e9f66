"""An OpenAI-compatible endpoint: the openai SDK as wire client only, one total deadline, nothing taken on trust."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.llm.base import ChatMessage, ErrorKind, ModelError, ModelReply, ToolOffer, Usage, estimate_tokens
from agent.llm.stream import Assembled, StreamJoiner, checked_calls
from agent.protocol import Deadline
from config.clock import Clock
from config.schema import ModelRoute

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_MAX_TEXT_CHARS = 200_000


class OpenAICompatible:
    """One route. The connection pool is opened at the first call and kept."""

    def __init__(self, route: ModelRoute, clock: Clock, *, stream: bool = True) -> None:
        self._route = route
        self._clock = clock
        self._stream = stream
        self._extra: dict[str, Any] = dict(route.extra_body)
        self._client: AsyncOpenAI | None = None

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
        return _reply(answer, messages)

    async def transcribe(self, file_name: str, audio: bytes, deadline: Deadline) -> str:
        """The words of a recording (``/audio/transcriptions``). Raises ModelError; empty text is a failure."""
        try:
            async with asyncio.timeout(deadline.remaining_s(self._clock.monotonic())):
                answer = await self._guarded(self._transcription(file_name, audio))
        except TimeoutError:
            raise ModelError("timeout", "no transcript in time") from None
        text = getattr(answer, "text", None)
        if not isinstance(text, str) or not text.strip():
            raise ModelError("empty", "no transcript")
        return text.strip()

    async def list_models(self, deadline: Deadline) -> list[str]:
        """Model ids the endpoint names, for ``yizhan models check``."""

        async def fetch() -> list[str]:
            return [model.id async for model in (await self._open()).models.list()]

        try:
            async with asyncio.timeout(deadline.remaining_s(self._clock.monotonic())):
                names: list[str] = await self._guarded(fetch())
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
        from openai import AsyncOpenAI

        client = AsyncOpenAI(
            api_key=self._route.api_key.get_secret_value() if self._route.api_key else "none",
            base_url=self._route.base_url,
            max_retries=0,
            timeout=self._route.timeout_s,
            organization="",
            project="",
        )
        _ = client.chat.completions  # a lazy import of the SDK's
        return client

    async def _transcription(self, file_name: str, audio: bytes) -> Any:
        client = await self._open()
        return await client.audio.transcriptions.create(model=self._route.model, file=(file_name, audio), extra_body=self._extra)

    async def _exchange(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer]) -> Assembled:
        request: dict[str, Any] = {
            "model": self._route.model,
            "messages": [_wire(message) for message in messages],
            "max_tokens": self._route.max_output_tokens,
            **self._extra,
        }
        if tools:
            request["tools"] = [_wire_tool(tool) for tool in tools]
        if self._stream:
            request["stream"] = True
            request["stream_options"] = {"include_usage": True}
        answer: Assembled = await self._guarded(self._send(request))
        return answer

    async def _send(self, request: dict[str, Any]) -> Assembled:
        client = await self._open()
        raw = await _post(client, request)
        joiner = StreamJoiner()
        if not self._stream:
            joiner.add_whole(raw)
        elif isinstance(raw, str | bytes) or not hasattr(raw, "__aiter__"):
            raise ModelError("bad_body", "not a stream")
        else:
            async with raw:
                await _read_stream(raw, joiner)
        return joiner.finish()

    async def _guarded(self, call: Any) -> Any:
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
            raise self._status_error(error.status_code, error.body) from None
        except openai.APIError:
            raise ModelError("server", "the endpoint reported an error in its stream") from None
        except (ValueError, TypeError, AttributeError, openai.OpenAIError) as error:
            raise ModelError("bad_body", f"unreadable answer: {type(error).__name__}") from None

    def _status_error(self, status: int, body: object) -> ModelError:
        if status == 404 and "conversation" in str(body).lower():
            self._extra = {key: value for key, value in self._extra.items() if "conversation" not in key and "session" not in key}
            return ModelError("refused", "conversation not found", status=404)
        kind: ErrorKind = "busy" if status == 429 else "server" if status >= 500 else "timeout" if status == 408 else "refused"
        return ModelError(kind, f"HTTP {status}", status=status)


async def _post(client: AsyncOpenAI, request: dict[str, Any]) -> Any:
    """The request as it is. ``chat.completions.create`` would first walk it by its type hints: 20 ms of a two-call turn."""
    from openai import AsyncStream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    stream = bool(request.get("stream"))
    return await client.post(
        "/chat/completions", cast_to=ChatCompletion, body=request, stream=stream, stream_cls=AsyncStream[ChatCompletionChunk]
    )


async def _whole_body(response: Any) -> bytes:
    """The rest of a body; the HTTP library is the SDK's own, so its errors are found by where its response comes from."""
    library = importlib.import_module(type(response).__module__.partition(".")[0])
    try:
        body: bytes = await response.aread()
    except library.TimeoutException:
        raise ModelError("timeout", "the endpoint was too slow") from None
    except library.HTTPError:
        raise ModelError("bad_body", "the body was cut") from None
    return body


async def _read_stream(raw: Any, joiner: StreamJoiner) -> None:
    """Read to the end; an endpoint that cannot stream and answers whole is taken at its word too."""
    import openai
    from openai.types.chat import ChatCompletion

    if "json" in raw.response.headers.get("content-type", ""):
        joiner.add_whole(ChatCompletion.model_validate_json(await _whole_body(raw.response)))
        return
    try:
        async for chunk in raw:
            joiner.add(chunk)
            if joiner.text_chars > _MAX_TEXT_CHARS:
                raise ModelError("bad_body", "endless answer")
    except openai.APITimeoutError:
        raise
    except openai.APIConnectionError:
        raise ModelError("bad_body", "the stream was cut") from None


def _wire(message: ChatMessage) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return wire


def _wire_tool(tool: ToolOffer) -> Mapping[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _reply(answer: Assembled, messages: Sequence[ChatMessage]) -> ModelReply:
    usage = answer.usage
    if usage is None:
        prompt = sum(estimate_tokens(message.content) for message in messages)
        usage = Usage(prompt, estimate_tokens(answer.text), estimated=True)
    draft = ModelReply(answer.text, (), usage, answer.finish_reason)
    if not answer.text.strip() and not answer.calls:
        raise ModelError("empty", "the model said nothing")
    return ModelReply(answer.text, checked_calls(answer.calls, draft), usage, answer.finish_reason)
