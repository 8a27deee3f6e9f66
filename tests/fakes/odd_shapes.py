"""Short ways to spell the answers of odd servers (tests/fakes/odd_*.py)."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.model_server import Answer, Raw, body, events, piece

STOP = piece("stop")
TOOLS = piece("tool_calls")
WEB = [("look", {"host": "web-01"})]


def text(*pieces: str, **more: Any) -> Answer:
    return events(*(piece(content=one) for one in pieces), STOP, **more)


def call(*pieces: dict[str, Any], finish: str = "tool_calls", **more: Any) -> Answer:
    return events(*(piece(tool_calls=[one]) for one in pieces), piece(finish), **more)


def part(arguments: Any, name: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"index": 0, "function": function, **more}


def whole(message: dict[str, Any], finish: Any = "stop") -> Answer:
    return body({"choices": [{"index": 0, "message": message, "finish_reason": finish}]})


def sse(raw: str | bytes, **more: Any) -> Answer:
    return Answer(raw=Raw((raw.encode() if isinstance(raw, str) else raw,), **more))


HELLO = json.dumps(piece(content="你好"), ensure_ascii=False)
END = json.dumps(STOP)
