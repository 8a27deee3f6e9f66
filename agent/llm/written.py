"""Tool calls a model wrote into its text, because its server does not know the model's own form of them.

The rule. A call is taken from text only where nobody could have meant it for a reader: after one of the markers models are
trained on and outside of backticks, or when the whole text (or its closing ``json`` fence) is one object that names an
offered tool and gives its arguments. It then takes the same way as any other call: schema, permission, confirmation.
Text that begins a call this way and cannot be read is a broken call, to be repaired; it is never shown.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.llm.base import ToolOffer
from agent.llm.calls import MAX_CALLS, RawCall, as_text, resolve
from agent.llm.visible import outside_code

_MAX_CHARS = 40_000
"""A call written as text is no longer than this; what is longer is broken."""
_MARKER = re.compile(
    r"<tool_calls?>\s*(?=[{\[<]|[\w.:-]+\s*(?:\n|<arg_key>|</tool_call>))|<function_calls?>\s*(?=[{\[<])|<tools>\s*(?=\{)"
    r"|<\|?/?tool_call\|?>\s*(?=[{\[])|<(?:\w+:)tool_calls?>|<｜DSML｜\w+|<invoke name=|<function=[\w.:-]+>"
    r"|<｜tool▁calls?▁begin｜>|<\|tool_calls?(?:_section)?_begin\|>|<\|python_tag\|>|<\|action_start\|>|<\|plugin\|>"
    r"|\[TOOL_CALLS\]|functools\s*(?=\[\s*\{)|<\|channel\|>\s*commentary\s+to=|<\|tool_call_argument_begin\|>"
)
_CLOSING = re.compile(
    r"</(?:\w+:)?(?:tool_calls?|function_calls?|tools)>|<｜tool▁calls▁end｜>|<\|tool_calls_section_end\|>|<\|action_end\|>"
)
_INVOKE = re.compile(
    r"<(?:｜DSML｜)?invoke name=\"?([^\">\n]+)\"?>(.*?)(?=</(?:｜DSML｜)?invoke>|<(?:｜DSML｜)?invoke |\Z)", re.DOTALL
)
_INVOKE_FIELD = re.compile(
    r"<(?:｜DSML｜)?parameter name=\"?([^\">\n]+?)\"?(?: [^>]*)?>(.*?)</(?:｜DSML｜)?parameter>", re.DOTALL
)
_FUNCTION = re.compile(r"<function=([\w.:-]+)>(.*?)(?=</function>|<function=|\Z)", re.DOTALL)
_FUNCTION_FIELD = re.compile(r"<parameter=([\w.:-]+)>(.*?)(?=</parameter>|<parameter=|</?function|</tool_call>|\Z)", re.DOTALL)
_GLM = re.compile(r"<tool_call>\s*([\w.:-]+)\s*((?:<arg_key>.*?)?)(?=</tool_call>|<tool_call>|\Z)", re.DOTALL)
_GLM_FIELD = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?=</arg_value>|<arg_key>|\Z)", re.DOTALL)
_NAME_THEN_JSON = re.compile(
    r"(?:<\|tool_call_begin\|>\s*|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?\s*|\[TOOL_CALLS\]\s*|\bto=)([\w.:-]+)"
    r"(?:\s*<\|tool_call_argument_begin\|>|\s*<｜tool▁sep｜>|\s*\[ARGS\]|[^{]{0,80}<\|message\|>|\s*```(?:json)?|(?=\s*\{))\s*(?=\{)"
)
_MORE = re.compile(r"<[|｜/]|tool_call|<parameter|<function")
_FOR_EXAMPLE = re.compile(r"(?:例如|比如|形如|示例|样例|例子|格式)(?:[是为]|如下)?[:：]?\Z")
"""What follows is shown to the reader."""
_PYTHON = re.compile(r"\A\[\s*[A-Za-z_][\w.]*\(.*\)\s*\]\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Written:
    """What was found: the text without the calls, the calls, and whether a call was begun that cannot be read."""

    text: str
    calls: tuple[RawCall, ...] = ()
    broken: bool = False


def written_calls(text: str, offers: Mapping[str, ToolOffer]) -> Written:
    """The calls written in a text."""
    marker = next(outside_code(_MARKER, text), None)
    if marker is not None:
        tail = text[marker.start() :]
        calls = _marked(tail, offers) if offers and len(tail) <= _MAX_CHARS else []
        closings = list(_CLOSING.finditer(text, marker.start()))
        after = text[closings[-1].end() :] if closings else ""
        before = text[: marker.start()].rstrip()
        return Written(before if _MORE.search(after) else before + after.rstrip(), tuple(calls), not calls)
    if not offers:
        return Written(text)
    return _whole(text, offers)


def _whole(text: str, offers: Mapping[str, ToolOffer]) -> Written:
    """A text that is a call and nothing else, or ends with one in a fence."""
    plain, before = text.strip(), ""
    if len(plain) > _MAX_CHARS:
        return Written(text)
    if _PYTHON.match(plain):
        calls = _python(plain, offers)
        return Written("", tuple(calls)) if calls else Written(text)
    if plain.endswith("```"):
        before, _, fenced = plain[:-3].rpartition("```")
        title, _, plain = fenced.partition("\n")
        if title.strip() not in ("", "json", "tool", "tool_call"):
            return Written(text)
        plain, before = plain.strip(), before.strip()
        if _FOR_EXAMPLE.search(before):
            return Written(text)
    if not plain.startswith(("{", "[")):
        return Written(text)
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        return Written(text)
    items = value if isinstance(value, list) else [value]
    known = [call for item in items if (call := _named(item)) is not None and resolve("".join(call.names), offers) is not None]
    return Written(before, tuple(known)) if known and len(known) == len(items) else Written(text)


def _marked(tail: str, offers: Mapping[str, ToolOffer]) -> list[RawCall]:
    for pattern, fields in ((_INVOKE, _INVOKE_FIELD), (_FUNCTION, _FUNCTION_FIELD), (_GLM, _GLM_FIELD)):
        found = [
            _call(name, _fields(fields, body, offers.get(resolve(name, offers) or ""))) for name, body in pattern.findall(tail)
        ]
        if found:
            return found[:MAX_CALLS]
    decoder, calls = json.JSONDecoder(), []
    for match in _NAME_THEN_JSON.finditer(tail):
        value = _decoded(decoder, tail, match.end())
        if not isinstance(value, dict):
            return []
        calls.append(_call(match[1], value))
    return calls[:MAX_CALLS] or _objects(decoder, tail)


def _objects(decoder: json.JSONDecoder, tail: str) -> list[RawCall]:
    """Every object of the tail that names a function, alone or in a list. One that cannot be read spoils all."""
    calls: list[RawCall] = []
    at = 0
    while (start := re.compile(r"[{\[](?!TOOL_CALLS|ARGS)").search(tail, at)) is not None:
        try:
            value, at = decoder.raw_decode(tail, start.start())
        except (ValueError, RecursionError):
            return []
        for item in value if isinstance(value, list) else [value]:
            call = _named(item)
            if call is None:
                return []
            calls.append(call)
        if len(calls) >= MAX_CALLS:
            break
    return calls


def _decoded(decoder: json.JSONDecoder, text: str, at: int) -> Any:
    try:
        return decoder.raw_decode(text, at)[0]
    except (ValueError, RecursionError):
        return None


def _named(item: Any) -> RawCall | None:
    """``{"name", "arguments"}`` in the spellings models use; None for any other object."""
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("function"), dict):
        item = item["function"]
    name = item.get("name", item.get("function", item.get("tool", item.get("tool_name"))))
    spelled = [key for key in ("arguments", "parameters", "args", "tool_input", "input") if key in item]
    extra = set(item) - {"name", "function", "tool", "tool_name", "type", "id", "index", *spelled}
    if not isinstance(name, str) or len(spelled) != 1 or extra or not isinstance(item[spelled[0]], dict | str | None):
        return None
    return _call(name, item[spelled[0]])


def _call(name: str, arguments: Any) -> RawCall:
    return RawCall(names=[name.strip()], arguments=as_text(arguments))


def _fields(pattern: re.Pattern[str], body: str, offer: ToolOffer | None) -> dict[str, Any]:
    """Parameters given as tags. Tags carry no types, so a value is JSON unless the tool wants a string there."""
    known = offer.parameters.get("properties", {}) if offer is not None else {}
    return {name.strip(): _typed(value, known.get(name.strip())) for name, value in pattern.findall(body)}


def _typed(value: str, schema: Any) -> Any:
    plain = value.strip("\n") if value.startswith("\n") else value.strip()
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return plain
    try:
        return json.loads(plain)
    except (ValueError, RecursionError):
        return plain


def _python(text: str, offers: Mapping[str, ToolOffer]) -> list[RawCall]:
    """``[look(host="web-01")]``, only literals and only offered tools."""
    try:
        tree = ast.parse(text, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else []
        calls = []
        for node in nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
                return []
            values = {field.arg: ast.literal_eval(field.value) for field in node.keywords if field.arg}
            if resolve(node.func.id, offers) is None:
                return []
            calls.append(_call(node.func.id, json.loads(json.dumps(values))))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return []
    return calls
