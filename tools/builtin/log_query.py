"""Searches the listed log files: the newest lines, filtered by a plain keyword."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config.logging import redact
from config.schema import LogSource, Settings, Tenant
from tools import texts
from tools.base import Tool, ToolContext, ToolFailed, ToolResult

_READ_BYTES = 2 * 1024 * 1024
_SHOWN_LINES = 3
_LINE_CHARS = 160


def build(settings: Settings, tenant: Tenant) -> list[Tool]:
    """The tool, where the tenant lists log files."""
    sources = {source.id: source for source in tenant.tools.logs}
    if not sources:
        return []

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        source = sources[arguments["source"]]
        return await _query(source, arguments.get("keyword"), int(arguments.get("tail", 200)))

    names = "，".join(f"{source.id}={source.description}" for source in sources.values())
    return [
        Tool(
            name="log_query",
            title="查日志",
            description="查最近的日志，可以按关键字筛选",
            parameters={
                "type": "object",
                "properties": {
                    "source": {"type": "string", "enum": list(sources), "title": "日志", "description": f"哪个日志：{names}"},
                    "keyword": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 100,
                        "title": "关键字",
                        "description": "包含的文字",
                    },
                    "tail": {"type": "integer", "minimum": 1, "maximum": 5000, "title": "行数", "description": "看最近多少行"},
                },
                "required": ["source"],
                "additionalProperties": False,
            },
            run=run,
            roles=frozenset({"server_access", "operator"}),
            labels={"source": "日志", "keyword": "关键字", "tail": "行数"},
            examples=(f"查日志 {next(iter(sources))} 里的 ERROR",),
            triggers=("查日志", "看日志", "查 日志", "看 日志", "搜 日志", "日志里"),
        )
    ]


async def _query(source: LogSource, keyword: str | None, tail: int) -> ToolResult:
    try:
        lines = await asyncio.to_thread(_last_lines, source.path, tail)
    except OSError:
        text = texts.LOG_MISSING.format(source=source.id)
        raise ToolFailed("the log cannot be read", code="no_log", user_text=text) from None
    found = [line for line in lines if keyword is None or keyword.lower() in line.lower()]
    last = "\n".join(redact(line)[:_LINE_CHARS] for line in found[-_SHOWN_LINES:])
    what = texts.LOG_ANY if keyword is None else texts.LOG_WITH.format(keyword=keyword)
    said = texts.LOG_LAST.format(lines=last) if last else ""
    summary = texts.LOG_FOUND.format(source=source.id, tail=len(lines), count=len(found), what=what, last=said)
    return ToolResult(summary, raw=found[-200:], values={"count": len(found), "lines": len(lines)})


def _last_lines(path: Path, count: int) -> list[str]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _READ_BYTES))
        text = file.read(_READ_BYTES).decode("utf-8", "replace")
    lines = text.splitlines()
    return (lines[1:] if size > _READ_BYTES else lines)[-count:]
