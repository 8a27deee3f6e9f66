"""A scripted OpenAI-compatible model server on loopback that can also misbehave in every way models do."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

Misbehaviour = Literal[
    "none",
    "busy_429",
    "error_500_html",
    "refused_400",
    "conversation_404",
    "hang",
    "slow_headers",
    "trickle",
    "cut_stream",
    "bad_json",
    "no_stream_body",
    "empty_stream",
    "empty_answer",
    "missing_index",
    "reused_index_0",
    "id_in_first_delta_only",
    "id_missing_everywhere",
    "bad_tool_json",
]


@dataclass(frozen=True, slots=True)
class Raw:
    """An HTTP answer byte for byte. ``parts`` are sent one by one; then the line is cut, kept open, or closed well."""

    parts: tuple[bytes, ...] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()
    then: Literal["close", "cut", "stay", "repeat"] = "close"
    """``repeat``: the last part again and again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: text, tool calls as (name, arguments), a delay, and what goes wrong with it. ``raw`` replaces all that."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    delay_s: float = 0.0
    wrong: Misbehaviour = "none"
    usage: tuple[int, int] | None = (100, 20)
    raw: Raw | None = None


Rule = Callable[[Mapping[str, Any]], Answer]


def say(text: str, *, delay_s: float = 0.0) -> Answer:
    """A plain text answer."""
    return Answer(text, delay_s=delay_s)


def call(name: str, arguments: Any, *, text: str = "", wrong: Misbehaviour = "none", delay_s: float = 0.0) -> Answer:
    """One tool call."""
    return Answer(text, ((name, arguments),), wrong=wrong, delay_s=delay_s)


def events(*chunks: Mapping[str, Any] | str, done: bool = True, then: Any = "close") -> Answer:
    """A stream of these chunks; a text is sent as it is, with an empty line after it."""
    parts = tuple(f"{one}\n\n".encode() if isinstance(one, str) else _event(one) for one in chunks)
    return Answer(raw=Raw((*parts, b"data: [DONE]\n\n") if done else parts, then=then))


def body(value: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON body, whatever was asked for."""
    named = tuple((name.replace("_", "-"), text) for name, text in headers.items())
    return Answer(raw=Raw((json.dumps(value).encode(),), status, "application/json", named))


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk of a stream."""
    return _delta(delta, finish)


def broken(wrong: Misbehaviour) -> Answer:
    """An answer that goes wrong."""
    return Answer("你好", wrong=wrong)


@dataclass
class ModelServer:
    """Answers in the order of ``script``, then by ``rule``. ``requests`` keeps every body it got."""

    script: deque[Answer] = field(default_factory=deque)
    rule: Rule = lambda request: say("好的")
    requests: list[dict[str, Any]] = field(default_factory=list)
    transcript: str = "明天提醒我开会"
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "fake"}])
    uploads: list[tuple[str, bytes]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    port: int = 0
    _runner: web.AppRunner | None = None
    _release: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """The base URL for a model route."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        """Listen on loopback."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop; hanging requests end."""
        self._release.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def then(self, *answers: Answer) -> None:
        """Add to the script."""
        self.script.extend(answers)

    async def _models(self, request: web.Request) -> web.Response:
        data = [{"object": "model", "created": 0, "owned_by": "tests", **one} for one in self.models]
        return web.json_response({"object": "list", "data": data})

    async def _transcribe(self, request: web.Request) -> web.Response:
        form = await request.post()
        upload = form["file"]
        if isinstance(upload, web.FileField):
            self.uploads.append((upload.filename, upload.file.read()))
        return web.json_response({"text": self.transcript})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers.get("Authorization", ""))
        answer = self.script.popleft() if self.script else self.rule(body)
        if answer.wrong == "hang":
            await self._release.wait()
            return web.Response(status=503)
        if answer.wrong == "slow_headers" or answer.delay_s:
            await self._pause(answer.delay_s or 5.0)
        if answer.raw is not None:
            return await self._raw(request, answer.raw)
        refusal = _refusal(answer.wrong)
        if refusal is not None:
            return refusal
        if not body.get("stream") or answer.wrong == "no_stream_body":
            return web.json_response(_whole(answer))
        return await self._streamed(request, answer)

    async def _streamed(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if answer.wrong == "empty_stream":
            await response.write(b"data: [DONE]\n\n")
            return response
        if answer.wrong == "trickle":
            while not self._release.is_set():
                await response.write(_event(_delta({"content": "好"})))
                await self._pause(0.05)
            return response
        chunks = list(_chunks(answer))
        if answer.wrong == "cut_stream":
            chunks = chunks[: max(1, len(chunks) // 2)]
        for chunk in chunks:
            await response.write(_event(chunk))
        if answer.wrong == "cut_stream":
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _raw(self, request: web.Request, raw: Raw) -> web.StreamResponse:
        response = web.StreamResponse(status=raw.status, headers={"Content-Type": raw.content_type, **dict(raw.headers)})
        await response.prepare(request)
        for part in raw.parts:
            await response.write(part)
            await asyncio.sleep(0)  # each part is a packet of its own
        while raw.then == "repeat" and not self._release.is_set():
            await response.write(raw.parts[-1])
            await asyncio.sleep(0)
        if raw.then == "stay":
            await self._release.wait()
        if raw.then == "cut" and request.transport is not None:
            request.transport.close()
        return response

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._release.wait()
        except TimeoutError:
            return


def _refusal(wrong: Misbehaviour) -> web.Response | None:
    if wrong == "busy_429":
        return web.json_response({"error": {"message": "rate limited", "type": "rate_limit"}}, status=429)
    if wrong == "error_500_html":
        return web.Response(text="<html><body>Internal Server Error</body></html>", content_type="text/html", status=500)
    if wrong == "refused_400":
        return web.json_response({"error": {"message": "context length exceeded"}}, status=400)
    if wrong == "conversation_404":
        return web.json_response({"error": {"message": "Conversation Not Exists.", "code": "not_found"}}, status=404)
    if wrong == "bad_json":
        return web.Response(text="oops, not json", content_type="application/json")
    return None


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _whole(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": _arguments(value)}}
            for number, (name, value) in enumerate(answer.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if answer.calls else "stop"}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "fake", "choices": [choice], **_usage(answer)}


def _usage(answer: Answer) -> dict[str, Any]:
    if answer.usage is None:
        return {}
    prompt, completion = answer.usage
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}}


def _chunks(answer: Answer) -> Sequence[dict[str, Any]]:
    """The answer as a stream: text in two pieces, each call's arguments in three."""
    if answer.wrong == "empty_answer":
        return [_delta({"role": "assistant"}), _delta({}, finish="stop")]
    middle = (len(answer.text) + 1) // 2
    chunks = [_delta({"role": "assistant"})]
    chunks += [_delta({"content": piece}) for piece in (answer.text[:middle], answer.text[middle:]) if piece]
    for number, (name, value) in enumerate(answer.calls):
        text = _arguments(value)
        if answer.wrong == "bad_tool_json":
            text = text[:-1] + ",,"
        cuts = [text[: len(text) // 3], text[len(text) // 3 : 2 * len(text) // 3], text[2 * len(text) // 3 :]]
        for position, piece in enumerate(cuts):
            chunks.append(_delta({"tool_calls": [_piece(answer.wrong, number, position, name, piece)]}))
    chunks.append({**_delta({}, finish="tool_calls" if answer.calls else "stop"), **_usage(answer)})
    return chunks


def _piece(wrong: Misbehaviour, number: int, position: int, name: str, arguments: str) -> dict[str, Any]:
    piece: dict[str, Any] = {"index": number, "function": {"arguments": arguments}}
    if position == 0:
        piece["function"]["name"] = name
        piece["type"] = "function"
    if position == 0 or wrong in ("missing_index", "reused_index_0"):
        piece["id"] = f"call_{number}"
    if wrong == "missing_index":
        del piece["index"]
    elif wrong == "reused_index_0":
        piece["index"] = 0
    elif wrong == "id_missing_everywhere":
        piece.pop("id", None)
        del piece["index"]
    return piece


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "fake", "choices": [choice]}


def _event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


@asynccontextmanager
async def model_server(*answers: Answer, rule: Rule | None = None) -> AsyncIterator[ModelServer]:
    """A running server with a script."""
    server = ModelServer(deque(answers))
    if rule is not None:
        server.rule = rule
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def helpful(request: Mapping[str, Any], delay_s: float = 0.0) -> Answer:
    """The rule of the stand-alone server: calls the first offered tool that needs nothing once, then sums up."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return say(f"查到了：{last['content']}", delay_s=delay_s)
    for tool in request.get("tools", ()):
        if not tool["function"]["parameters"].get("required") and "状态" in str(last["content"]):
            return call(tool["function"]["name"], {}, delay_s=delay_s)
    return say(f"关于“{str(last['content'])[:40]}”：这是模型的回答。", delay_s=delay_s)


async def _serve(port: int, delay_s: float) -> None:
    server = ModelServer(rule=lambda request: helpful(request, delay_s), port=port)
    await server.start()
    print(json.dumps({"url": server.url}), flush=True)  # noqa: T201 -- a program's output
    try:
        await asyncio.Event().wait()
    finally:
        await server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay-s", type=float, default=0.0)
    options = parser.parse_args()
    asyncio.run(_serve(options.port, options.delay_s))
