"""A corpus of what people say to the rule model, and what it must hear: the tool with its arguments, a question, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.llm.base import ModelReply, ToolOffer
from agent.toolbox import offer_of
from config.demo import demo_tenant
from memory.segment import Segmenter
from tests.fakes.assistant import settings_for
from tests.unit.agent.test_offline import TOOLS, Talk
from tools.assembly import builtin_tools, tenant_tools

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "fixtures/rule_model_zh.json").read_text("utf-8"))
MORE: dict[str, list[dict[str, Any]]] = {
    "robots": [{"id": "dev", "title": "研发群", "webhook": "http://127.0.0.1/2"}],
    "scripts": [{"id": "disk-clean", "description": "清理磁盘临时文件", "argv": ["true"]}],
    "hosts": [{"id": "web-01", "address": "192.0.2.1"}, {"id": "db-02", "address": "192.0.2.2"}],
    "logs": [
        {"id": "nginx", "description": "网关访问日志", "path": "/nonexistent/nginx.log"},
        {"id": "app", "description": "应用日志", "path": "/nonexistent/app.log"},
    ],
    "http": TOOLS["http"],
}
ROOM = {
    "type": "object",
    "properties": {
        "room": {"type": "string", "description": "会议室"},
        "hours": {"type": "integer", "default": 1, "description": "小时数"},
    },
    "required": ["room"],
    "additionalProperties": False,
}


def demo_offers() -> list[ToolOffer]:
    """The demo's tools, with a few more machines, logs and groups, and an author's first tool."""
    tenant = demo_tenant("http://127.0.0.1:1")
    for name, more in MORE.items():
        tenant["tools"][name] = [*tenant["tools"].get(name, []), *more]
    settings = settings_for(Path("/nonexistent"), tenant)
    tools = {tool.name: tool for tool in [*builtin_tools(), *tenant_tools(settings, settings.tenants[0])]}
    labels = {"room": "会议室", "hours": "小时数"}
    return [
        *(offer_of(tool) for tool in tools.values()),
        ToolOffer("book_room", "Book a meeting room.", ROOM, (), (), "预订会议室", labels, writes=True),
    ]


OFFERS = demo_offers()
_UNSAID = ("none", "open")
"""Choices that say nothing more than their absence."""


def heard(reply: ModelReply, state: dict[str, Any]) -> dict[str, Any]:
    calls = [(call.name, _bare(json.loads(call.arguments))) for call in reply.tool_calls]
    if len(calls) == 1:
        return {"heard": calls[0][0], "arguments": calls[0][1]}
    if calls:
        return {"heard": "multi", "arguments": [list(one) for one in calls]}
    asked = state.get("slots")
    return {"heard": f"ask {asked['tool']}.{asked['ask']}", "arguments": _bare(asked["args"])} if asked else {"heard": "none"}


def _bare(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value not in _UNSAID}


@pytest.mark.parametrize("case", CASES, ids=[" / ".join(case["said"]) for case in CASES])
async def test_what_is_said_is_heard(segmenter: Segmenter, case: dict[str, Any]) -> None:
    talk = Talk(segmenter, OFFERS)
    for line in case["said"]:
        reply = await talk.say(line)
    assert heard(reply, talk.state) == {key: case[key] for key in ("heard", "arguments") if key in case}


def test_the_corpus_is_wide() -> None:
    """Every tool of the demo is heard at least once, and as much that is none of them."""
    names = {case["heard"] for case in CASES}
    assert {offer.name for offer in OFFERS} - names <= {"files_list", "files_archive"}
    assert sum(case["heard"] == "none" for case in CASES) >= 40
    assert len(CASES) >= 300
