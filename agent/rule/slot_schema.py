"""A tool's parameters as the rule model sees them: kinds, names for the person, words for choices."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from agent.llm.base import ToolOffer

_TIME_NAME = re.compile(r"(?:^|_)(?:at|time|date|datetime|due|when|deadline|remind|start|end|from|to|until|since)$|_(?:at|on)$")

_HAN = re.compile("[\u4e00-\u9fff]")


def missing(offer: ToolOffer, values: Mapping[str, Any]) -> list[str]:
    """Required parameters without a value, in the schema's order."""
    required = offer.parameters.get("required", [])
    return [name for name in properties_of(offer) if name in required and name not in values]


def label(name: str, schema: Mapping[str, Any]) -> str:
    """What a parameter is called to a person: its title, else its description's first clause, else its name."""
    schema = flat(schema)
    title = str(schema.get("title") or "")
    if _HAN.search(title):
        return title
    description = str(schema.get("description") or "").strip()
    described = re.split(r"[，,。；;（(：:\s]" if _HAN.match(description) else r"[,.;(:]", description, maxsplit=1)[0].strip()
    return described or title or name


def choices(schema: Mapping[str, Any]) -> list[str]:
    """The values of an enum as a person may say them."""
    schema = flat(schema)
    words = enum_words(schema)
    return [next((word for word, value in words.items() if value == item), str(item)) for item in schema.get("enum", [])]


def property_of(offer: ToolOffer, name: str) -> Mapping[str, Any]:
    """The schema of one parameter, its title the Chinese name the tool gives it."""
    return properties_of(offer).get(name, {})


def is_time(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a parameter holds a moment or a day."""
    schema = flat(schema)
    if schema.get("type", "string") != "string":
        return False
    if schema.get("format") in ("date-time", "date"):
        return True
    text = f"{schema.get('title', '')} {schema.get('description', '')}"
    return bool(_TIME_NAME.search(name)) and bool(re.search(r"时间|日期|ISO|时刻|截止|YYYY", text))


def properties_of(offer: ToolOffer) -> dict[str, Mapping[str, Any]]:
    """Every parameter's schema, in the tool's order, titled with its Chinese name."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, schema in offer.parameters.get("properties", {}).items():
        if isinstance(schema, Mapping):
            plain = flat(schema)
            found[name] = {**plain, "title": offer.labels[name]} if offer.labels.get(name) else plain
    return found


def flat(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """``anyOf`` with null (an optional field of pydantic) as its other half."""
    options = [one for one in schema.get("anyOf", ()) if isinstance(one, Mapping) and one.get("type") != "null"]
    return {**options[0], **{key: value for key, value in schema.items() if key != "anyOf"}} if options else schema


def enum_words(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Words for enum values told in the description as ``high=高`` or ``高(high)``; ``create=新建/创建`` tells two, the first of
    them the one people are shown."""
    words: dict[str, Any] = {}
    text = unicodedata.normalize("NFKC", str(schema.get("description", "")))
    for item in schema.get("enum", ()):
        for pattern in (
            rf"\b{re.escape(str(item))}\s*[=:是]\s*([\u4e00-\u9fff/]+)",
            rf"([\u4e00-\u9fff]+)\(\s*{re.escape(str(item))}\s*\)",
        ):
            match = re.search(pattern, text)
            for word in match[1].split("/") if match else ():
                words.setdefault(word, item)
    return words
