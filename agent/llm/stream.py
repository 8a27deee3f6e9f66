"""Joins a streamed answer: text, and tool-call chunks by index, id, then position (M03, M04, M10)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.llm.base import ModelError, ModelReply, ToolCall, Usage
from config.ids import new_id

_MAX_CALLS = 64


@dataclass(slots=True)
class RawCall:
    """A tool call while its pieces arrive."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Assembled:
    """A whole answer, its tool arguments not yet checked. ``usage`` is None when the endpoint did not tell."""

    text: str
    calls: tuple[RawCall, ...]
    usage: Usage | None
    finish_reason: str | None


@dataclass(slots=True)
class StreamJoiner:
    """Collects chunks of one choice. Feed every chunk, then ``finish``."""

    text_chars: int = 0
    _text: list[str] = field(default_factory=list)
    _calls: list[RawCall] = field(default_factory=list)
    _usage: Usage | None = None
    _finish: str | None = None
    _chunks: int = 0

    def add(self, chunk: Any) -> None:
        """Take one chunk of the SDK; unknown shapes raise AttributeError or TypeError."""
        self._chunks += 1
        self._take_usage(getattr(chunk, "usage", None))
        for choice in (chunk.choices or ())[:1]:
            self._take(choice.delta, streamed=True)
            self._finish = choice.finish_reason or self._finish

    def add_whole(self, completion: Any) -> None:
        """Take an answer that was not streamed."""
        self._chunks += 1
        self._take_usage(getattr(completion, "usage", None))
        choice = completion.choices[0] if completion.choices else None
        if choice is not None:
            self._take(choice.message, streamed=False)
            self._finish = choice.finish_reason or "stop"

    def finish(self) -> Assembled:
        """The whole answer. An empty stream, or one cut before its end, raises ModelError."""
        if self._chunks == 0:
            raise ModelError("empty", "an empty stream")
        if self._finish is None:
            raise ModelError("bad_body", "the stream ended before the answer did")
        return Assembled(without_thoughts("".join(self._text)), tuple(self._calls), self._usage, self._finish)

    def _take(self, delta: Any, *, streamed: bool) -> None:
        if delta is None:
            return
        if delta.content:
            self._text.append(delta.content)
            self.text_chars += len(delta.content)
        for position, piece in enumerate(delta.tool_calls or ()):
            function = piece.function
            call = self._call_for(piece, position) if streamed else self._new_call(None)
            call.id = call.id or piece.id or ""
            if function is not None:
                call.name = call.name or function.name or ""
                call.arguments += function.arguments or ""
                self.text_chars += len(function.arguments or "")

    def _call_for(self, piece: Any, position: int) -> RawCall:
        """The call a piece belongs to: a known id is that call; a new id starts one, even on a used index; without an id
        the index tells, and without both the position, a piece that names a function starting a new call."""
        index = getattr(piece, "index", None)
        if piece.id:
            known = next((call for call in self._calls if call.id == piece.id), None)
            if known is not None:
                return known
            same = [call for call in self._calls if index is not None and call.index == index]
            return same[-1] if same and not same[-1].id else self._new_call(index)
        if index is not None:
            same = [call for call in self._calls if call.index == index]
            return same[-1] if same else self._new_call(index)
        named = piece.function is not None and bool(piece.function.name)
        if not self._calls or (named and self._calls[-1].name):
            return self._new_call(None)
        return self._calls[-1] if position == 0 or position >= len(self._calls) else self._calls[position]

    def _new_call(self, index: int | None) -> RawCall:
        if len(self._calls) >= _MAX_CALLS:
            raise ModelError("bad_body", "too many tool calls")
        call = RawCall(index=index)
        self._calls.append(call)
        return call

    def _take_usage(self, usage: Any) -> None:
        if usage is not None and isinstance(getattr(usage, "prompt_tokens", None), int):
            self._usage = Usage(usage.prompt_tokens, usage.completion_tokens or 0)


def without_thoughts(text: str) -> str:
    """The answer without what a reasoning model thought aloud before it (``<think>...</think>``, or an unclosed one)."""
    if "</think>" in text:
        return text.rpartition("</think>")[2].lstrip()
    return "" if text.lstrip().startswith("<think>") else text


def checked_calls(calls: Sequence[RawCall], draft: ModelReply) -> tuple[ToolCall, ...]:
    """The calls, every argument text proven to be a JSON object before anything keeps it (M05). Raises ModelError."""
    checked: list[ToolCall] = []
    for call in calls:
        text = call.arguments.strip() or "{}"
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError):
            raise ModelError("bad_tool_json", "tool arguments are no JSON", draft=draft) from None
        if not isinstance(arguments, dict) or not call.name:
            raise ModelError("bad_tool_json", "a tool call without a name or an object", draft=draft)
        checked.append(ToolCall(call.id or new_id("call"), call.name, text))
    if len({call.id for call in checked}) != len(checked):
        checked = [ToolCall(new_id("call"), call.name, call.arguments) for call in checked]
    return tuple(checked)
