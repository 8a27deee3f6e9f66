"""What an endpoint has refused in a request though it is no matter to the person, and how it is asked from then on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_STREAM_OPTIONS = re.compile(r"stream_options|include_usage")
_NEW_LIMIT = re.compile(r"max_completion_tokens")
_NO_STREAM = re.compile(
    r"(not support|unsupported|no support for)[^.]{0,20}\bstream(ing)?\b(?!_)"
    r"|\bstream(ing)?\b(?!_)['\"]?[^.]{0,20}(does not support|not (be )?(supported|allowed|enabled|available)|unsupported)"
)
_NO_SYSTEM = re.compile(
    r"system (role|message|prompt)s?[^.]{0,30}(not|un)[ -]?(be )?(support|allow)|(not support|unsupported)[^.]{0,20}\bsystem\b"
    r"|only user\b[^.]{0,40}\broles|\bgot system\b"
)
_NO_EMPTY = re.compile(
    r"content[^.]{0,30}(不能为空|non-?empty|(not|cannot|can't) be (empty|blank)|is (empty|blank)|at least 1 char)"
)
_SCHEMA_WORD = re.compile(
    r"(?:unknown name|unsupported (?:keyword|schema key\w*)|unrecognized (?:keyword|schema key\w*))[ :]*\\?[\"'`](\$?\w+)"
)
_NARROWING = """additionalproperties $schema $id title default examples pattern format const propertynames multipleof
exclusiveminimum exclusivemaximum minimum maximum minlength maxlength minitems maxitems uniqueitems"""
_DISPENSABLE = frozenset(_NARROWING.split())
"""Words of a schema that only narrow it: the registry checks every call against the whole schema anyway."""
MOST_ADAPTATIONS = 4
"""How often one call may be sent again because the endpoint would not take something in it."""
_TOLD = "好的，我会按这些规则回答。"
_NOTHING = "（没有内容）"


@dataclass(slots=True)
class Quirks:
    """How one endpoint must be asked. Empty until it refuses something. Lives as long as the process."""

    dropped: set[str] = field(default_factory=set)
    new_limit: bool = False
    whole: bool = False
    """It cannot stream."""
    no_system: bool = False
    """Its chat template has no place for a system message."""
    no_empty: bool = False
    """It takes no message without words, though it calls tools without any itself."""
    schema_words: set[str] = field(default_factory=set)
    """Schema words it does not know (lower case)."""

    def learn(self, status: int, body: object, request: Mapping[str, Any]) -> bool:
        """Take note of a refusal of this request. True when the same call, asked the way known now, is another request: also
        for one that was under way when an earlier one taught it."""
        text = str(body)[:4000].lower()
        if status == 404 and "conversation" in text:
            self.dropped |= {key for key in request if "conversation" in key or "session" in key}
            return True  # SES-22: the conversation is gone, ours or one its backend kept; a new one begins
        if status not in (400, 415, 422, 500, 501):
            return False
        if "stream_options" in request and _STREAM_OPTIONS.search(text):
            self.dropped.add("stream_options")
        elif _NEW_LIMIT.search(text) and ("max_tokens" in request or "max_completion_tokens" in request):
            self.new_limit = "max_tokens" in request
        elif request.get("stream") and _NO_STREAM.search(text):
            self.whole = True
        elif _NO_SYSTEM.search(text) and any(one["role"] == "system" for one in request["messages"]):
            self.no_system = True
        elif _NO_EMPTY.search(text) and not all(one["content"] for one in request["messages"]):
            self.no_empty = True
        else:
            words = {word for word in _SCHEMA_WORD.findall(text) if word in _DISPENSABLE}
            self.schema_words |= words
            return bool(words) and self.apply(dict(request)) != request
        return True

    def apply(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request as this endpoint takes it."""
        kept = {key: value for key, value in request.items() if key not in self.dropped}
        if self.new_limit and "max_tokens" in kept:
            kept["max_completion_tokens"] = kept.pop("max_tokens")
        if self.whole:
            kept.pop("stream", None)
            kept.pop("stream_options", None)
        if self.no_system:
            kept["messages"] = _without_system(kept["messages"])
        if self.no_empty:
            kept["messages"] = [{**one, "content": one["content"] or _NOTHING} for one in kept["messages"]]
        if self.schema_words and "tools" in kept:
            kept["tools"] = [
                {
                    **tool,
                    "function": {**tool["function"], "parameters": _without(tool["function"]["parameters"], self.schema_words)},
                }
                for tool in kept["tools"]
            ]
        return kept


def _without_system(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rules as a round of their own before the others, so that what the person said stays word for word."""
    told: list[Mapping[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            told += [{"role": "user", "content": message["content"]}, {"role": "assistant", "content": _TOLD}]
        else:
            told.append(message)
    return told


def _without(schema: Any, words: set[str]) -> Any:
    """The schema without some of its words; the names of properties are not words of the schema."""
    if isinstance(schema, list):
        return [_without(one, words) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if key.lower() not in words}
    for key, value in kept.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            kept[key] = {name: _without(one, words) for name, one in value.items()}
        elif key not in ("enum", "required", "const", "default", "examples"):
            kept[key] = _without(value, words)
    return kept
