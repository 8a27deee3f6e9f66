"""Tool calls as endpoints spell them, made into calls that are proven: a name, and arguments that are a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.llm.base import ModelError, ModelReply, ToolCall
from config.ids import new_id

MAX_CALLS = 64
_UNSTORABLE = re.compile(r"[\ud800-\udfff]|(?<!\\)(?:\\\\)*\\u0000")
"""Halves of surrogate pairs, and NUL as JSON writes it; a backslash and u0000 that somebody typed are neither."""
_PREFIX = re.compile(r"^(?:functions?|tools?|default_api|tool_call)[.:]")


@dataclass(slots=True)
class RawCall:
    """A tool call while its pieces arrive."""

    id: str = ""
    index: int | None = None
    arguments: str = ""
    names: list[str] = field(default_factory=list)
    """The pieces of the name, each once as it came."""
    signature: Any = None
    """Gemini's ``extra_content``: opaque, and wanted back."""

    def add_name(self, piece: str) -> None:
        """Names come whole, in pieces, or again with every chunk."""
        if piece and piece != "".join(self.names) and (not self.names or piece != self.names[0]):
            self.names.append(piece)

    def add_arguments(self, piece: Any) -> None:
        """Arguments come in fragments, as an object, or again from the start with every chunk."""
        text = as_text(piece)
        if not text:
            return
        begun = self.arguments.lstrip()
        if begun.startswith("{") and text.startswith(begun) and begun != "{}":
            self.arguments = text  # sent again from the start; no object begins with the same brace twice
        elif begun.strip() == "{}" and text.lstrip().startswith('{"'):
            self.arguments = text  # an empty object first, as a placeholder
        else:
            self.arguments += text

    @property
    def complete(self) -> bool:
        """Whether the arguments are a whole object already, and not the empty placeholder."""
        text = self.arguments.strip()
        return len(text) > 2 and text.endswith("}") and _object(text) is not None

    def name(self, offered: Collection[str]) -> str:
        """The name of an offered tool if any reading of the pieces gives one, else as the model wrote it."""
        whole = "".join(self.names)
        for reading in (whole, self.names[0] if self.names else ""):
            found = resolve(reading, offered)
            if found is not None:
                return found
        return whole.strip()


def as_text(piece: Any) -> str:
    """Arguments as JSON text, whether they came as text or as the value itself."""
    if piece is None:
        return ""
    return piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False)


def resolve(name: str, offered: Collection[str]) -> str | None:
    """The offered tool a name means: exactly, or without a namespace, a counter, template tokens, or by another spelling."""
    plain = name.partition("<|")[0].strip().strip("\"'`")
    plain = re.sub(r":\d+$", "", _PREFIX.sub("", plain))
    if plain in offered:
        return plain
    alike = [one for one in offered if _folded(one) == _folded(plain)]
    return alike[0] if len(alike) == 1 else None


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_").replace(" ", "_")


def checked_calls(calls: Sequence[RawCall], draft: ModelReply, offered: Collection[str]) -> tuple[ToolCall, ...]:
    """The calls, every argument text proven to be a JSON object before anything keeps it (M05). Raises ModelError."""
    checked: list[ToolCall] = []
    for call in calls:
        name, arguments = call.name(offered), arguments_text(call.arguments)
        if arguments is None or not name:
            raise ModelError("bad_tool_json", "a tool call without a name, or arguments that are no JSON object", draft=draft)
        checked.append(ToolCall(call.id or new_id("call"), name, arguments))
    if len({call.id for call in checked}) != len(checked):
        checked = [ToolCall(new_id("call"), call.name, call.arguments) for call in checked]
    return tuple(checked)


def arguments_text(text: str) -> str | None:
    """JSON text of an object, or None. Nothing, ``null`` and the like are an empty object; a fence around it and an object
    spelled as a JSON string are taken off; characters no database takes are refused."""
    text = text.strip()
    if len(text) > 6 and text.startswith("```") and text.endswith("```"):
        text = text[:-3].partition("\n")[2].strip()
    if text in ("", "null", "None", '""', '"null"', "undefined"):
        return "{}"
    value = _object(text)
    if value is None and text.startswith('"'):
        inner = _parsed(text)
        text = inner.strip() if isinstance(inner, str) else ""
        value = _object(text)
    if value is None:
        return None
    return None if _UNSTORABLE.search(json.dumps(value, ensure_ascii=False)) else text


def _object(text: str) -> dict[str, Any] | None:
    value = _parsed(text)
    return value if isinstance(value, dict) else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
