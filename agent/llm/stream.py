"""Joins an answer from what an endpoint sends: text, thoughts, and tool-call pieces by index, id, then position (M03, M04,
M10). Works on plain JSON, because what servers call compatible seldom fits the SDK's types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agent.llm.base import ErrorKind, ModelError, Reason, Usage
from agent.llm.calls import MAX_CALLS, RawCall, as_text
from agent.llm.refusals import of_payload

MAX_TEXT_CHARS = 200_000
_FAILED_FINISH: dict[str, tuple[ErrorKind, Reason | None]] = {
    "content_filter": ("refused", "filtered"),
    "sensitive": ("refused", "filtered"),
    "insufficient_system_resource": ("busy", None),
    "network_error": ("server", None),
    "error": ("server", None),
    "abort": ("bad_body", None),
    "unexpected_stop": ("bad_body", None),
}
"""Finish reasons that say the answer is none. Every other one, known or not, ends an answer."""
_CUT = ("length", "max_tokens", "model_length", "MAX_TOKENS", "max_output_tokens")


@dataclass(frozen=True, slots=True)
class Assembled:
    """A whole answer as it was sent, thoughts and markup still in it, its tool arguments not yet checked. ``usage`` is None
    when the endpoint did not tell; ``thought`` is (field, text)."""

    text: str
    calls: tuple[RawCall, ...]
    usage: Usage | None
    finish_reason: str | None
    thought: tuple[str, str] | None = None


@dataclass(slots=True)
class StreamJoiner:
    """Collects the chunks of one answer. Feed every chunk, then ``finish``."""

    _text: list[str] = field(default_factory=list)
    _refusal: list[str] = field(default_factory=list)
    _thought: dict[str, list[str]] = field(default_factory=dict)
    _calls: list[RawCall] = field(default_factory=list)
    _usage: Usage | None = None
    _finish: str | None = None
    _choice: Any = None
    _chunks: int = 0
    _chars: int = 0
    done: bool = False
    """Whether the stream said ``[DONE]``."""

    @property
    def finished(self) -> bool:
        """Whether the answer has come to an end, though its usage may still follow."""
        return self._finish is not None

    def add(self, chunk: Mapping[str, Any], *, is_error: bool = False) -> None:
        """Take one chunk. Raises the ModelError that hides in it."""
        self._chunks += 1
        error = of_payload(chunk, is_error=is_error)
        if error is not None:
            raise error
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and self._is_ours(choice.get("index")):
                self._take_choice(choice)
        if self._chars > MAX_TEXT_CHARS:
            raise ModelError("bad_body", "endless answer")

    def add_whole(self, completion: Mapping[str, Any]) -> None:
        """Take an answer that was not streamed."""
        self.add(completion)
        self.done = True

    def finish(self) -> Assembled:
        """The whole answer. Raises ModelError for an empty stream, one cut before its end, and a finish that is a failure."""
        if self._chunks == 0:
            raise ModelError("empty", "an empty stream")
        if self._finish in _FAILED_FINISH:
            kind, reason = _FAILED_FINISH[self._finish]
            raise ModelError(kind, "the endpoint broke off", reason=reason)
        if self._finish is None and not self._seems_whole():
            raise ModelError("empty" if self.done else "bad_body", "the stream ended before the answer did")
        text = "".join(self._joined_text()) or "".join(self._refusal)
        thought = next(((name, "".join(parts)) for name, parts in self._thought.items()), None)
        finish = "length" if self._finish in _CUT else self._finish or "stop"
        return Assembled(text, tuple(self._calls), self._usage, finish, thought)

    def _seems_whole(self) -> bool:
        """Whether an answer whose finish was never told is one all the same: the end mark came, or every call is complete
        (GLM at some hosts just closes the line after its calls). Text alone may be cut anywhere."""
        if self.done:
            return bool(self._chars or self._refusal)
        return bool(self._calls) and all(call.complete for call in self._calls)

    def _joined_text(self) -> list[str]:
        """The pieces; where each one repeats all before it (a server that does not stream increments), the last one."""
        pieces = self._text
        repeats = len(pieces) >= 3 and all(len(a) < len(b) and b.startswith(a) for a, b in pairwise(pieces))
        return pieces[-1:] if repeats else pieces

    def _is_ours(self, index: Any) -> bool:
        if self._choice is None:
            self._choice = index
        return index is None or index == self._choice

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        said = choice.get("delta")
        if not isinstance(said, Mapping) or not said:
            whole = choice.get("message")  # not streamed, or a last chunk that says everything again
            said = whole if isinstance(whole, Mapping) and not self._chars else {}
            self._take(said, streamed=False)
        else:
            self._take(said, streamed=True)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish and finish != "null":
            self._finish = finish
        elif "message" in choice and self._finish is None:
            self._finish = "stop"

    def _take(self, said: Mapping[str, Any], *, streamed: bool) -> None:
        self._take_content(said.get("content"))
        refusal = said.get("refusal")
        if isinstance(refusal, str):
            self._refusal.append(refusal)
        for name in ("reasoning_content", "reasoning"):
            if isinstance(said.get(name), str) and said[name]:
                self._thought.setdefault(name, []).append(said[name])
        pieces = said.get("tool_calls")
        if isinstance(said.get("function_call"), Mapping):  # the form before tool_calls; there is one call at most
            pieces = [{"index": 0, "function": said["function_call"]}]
        if isinstance(pieces, Mapping):
            pieces = [pieces]
        for position, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            if isinstance(piece, Mapping):
                self._take_piece(piece, position, streamed)

    def _take_content(self, content: Any) -> None:
        """Text, or a list of parts of which only text is for people."""
        if isinstance(content, list):
            for part in content:
                if isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text"):
                    self._take_content(part.get("text"))
        elif isinstance(content, str) and content:
            self._text.append(content)
            self._chars += len(content)

    def _take_piece(self, piece: Mapping[str, Any], position: int, streamed: bool) -> None:
        nested = piece.get("function")
        function: Mapping[str, Any] = nested if isinstance(nested, Mapping) else piece
        name, arguments = function.get("name"), function.get("arguments", function.get("parameters"))
        key = piece.get("id")
        key = key if isinstance(key, str) else ""
        named = isinstance(name, str) and bool(name.strip())
        call = self._call_for(piece.get("index"), key, named, position) if streamed else self._new_call(None)
        if named and call.complete and arguments and not _again(call, arguments):
            call = self._new_call(call.index)  # another whole call where one was finished, id and index used again
        call.id = call.id or key
        call.signature = call.signature or piece.get("extra_content")
        if named:
            call.add_name(str(name))
        before = len(call.arguments)
        call.add_arguments(arguments)
        self._chars += max(1, len(call.arguments) - before)

    def _call_for(self, index: Any, key: str, named: bool, position: int) -> RawCall:
        """The call a piece belongs to: a known id is that call; a new id starts one, even on a used index; without an id
        the index tells, and without both the position, a piece that names a function starting a new call."""
        number = int(index) if isinstance(index, int) or (isinstance(index, str) and index.isdecimal()) else None
        same = [call for call in self._calls if number is not None and call.index == number]
        if key:
            known = [call for call in self._calls if call.id == key and (number is None or call.index in (None, number))]
            if known:
                return known[-1]
            return same[-1] if same and not same[-1].id else self._new_call(number)
        if number is not None:
            return same[-1] if same else self._new_call(number)
        if not self._calls or (named and self._calls[-1].names):
            return self._new_call(None)
        return self._calls[-1] if position == 0 or position >= len(self._calls) else self._calls[position]

    def _new_call(self, index: int | None) -> RawCall:
        if len(self._calls) >= MAX_CALLS:
            raise ModelError("bad_body", "too many tool calls")
        call = RawCall(index=index)
        self._calls.append(call)
        return call

    def _take_usage(self, usage: Any) -> None:
        if isinstance(usage, Mapping) and isinstance(usage.get("prompt_tokens"), int):
            told = usage.get("completion_tokens")
            self._usage = Usage(usage["prompt_tokens"], told if isinstance(told, int) else 0)


def _again(call: RawCall, arguments: Any) -> bool:
    """Whether a piece only repeats what the call has."""
    return as_text(arguments).strip() == call.arguments.strip()
