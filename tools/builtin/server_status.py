"""How a server is: CPU, memory, disk and the busiest processes, of this host or a listed one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.schema import Host, Settings, Tenant
from tools import texts
from tools.base import Tool, ToolContext, ToolFailed, ToolResult, phrases
from tools.process import run_local, run_on

LIMIT = 80
_SAMPLE_S = 0.3
_TOP = 3
_PROBE = (
    "cat /proc/stat; echo ---; sleep 0.3; cat /proc/stat; echo ---; cat /proc/meminfo; echo ---; df -P /; echo ---; "
    "ps -eo comm,pcpu,rss --sort=-pcpu"
)
"""The fixed remote command; nothing a person says becomes part of it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Percentages, rounded, and the busiest programs as (name, CPU %)."""

    cpu: int
    memory: int
    disk: int
    top: tuple[tuple[str, float], ...] = ()


def build(settings: Settings, tenant: Tenant) -> list[Tool]:
    """The tool; remote hosts are those the tenant lists."""
    hosts = {host.id: host for host in tenant.tools.hosts}

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        name = arguments.get("host", "local")
        usage = await (_local() if name == "local" else _remote(hosts[name]))
        return _result(os.uname().nodename if name == "local" else name, usage)

    return [
        Tool(
            name="server_status",
            title="查服务器状态",
            description="查服务器的CPU、内存、磁盘和占用最高的进程",
            parameters={
                "type": "object",
                "properties": {
                    "host": {"type": "string", "enum": ["local", *hosts], "title": "主机", "description": "哪台主机，local=本机"}
                },
                "additionalProperties": False,
            },
            run=run,
            roles=frozenset({"server_access", "operator"}),
            timeout_s=15.0,
            labels={"host": "主机"},
            examples=("服务器状态怎么样", "看看本机的负载", "机器还好吗，卡不卡，是不是挂了"),
            triggers=phrases(
                "服务器状态、查服务器、看服务器、服务器怎么样、服务器 负载、机器 负载、本机 负载、内存使用、CPU使用、磁盘使用"
            ),
        )
    ]


async def _local() -> Usage:
    try:
        before = await asyncio.to_thread(_read, "/proc/stat")
        await asyncio.sleep(_SAMPLE_S)
        after, memory = await asyncio.to_thread(_read, "/proc/stat"), await asyncio.to_thread(_read, "/proc/meminfo")
        disk = await asyncio.to_thread(os.statvfs, "/")
    except OSError:
        raise ToolFailed("no /proc here", user_text=texts.STATUS_UNREADABLE.format(host=texts.HERE)) from None
    used = disk.f_blocks - disk.f_bfree
    top = await run_local(["ps", "-eo", "comm,pcpu,rss", "--sort=-pcpu"], timeout_s=5)
    return Usage(
        parse_cpu(before, after), parse_memory(memory), round(100 * used / max(1, used + disk.f_bavail)), parse_top(top.output)
    )


async def _remote(host: Host) -> Usage:
    ran = await run_on(host, ["sh", "-c", _PROBE], timeout_s=12)
    parts = ran.output.split("---\n")
    if len(parts) != 5:
        raise ToolFailed("no proper answer", user_text=texts.STATUS_UNREADABLE.format(host=texts.THERE.format(host=host.id)))
    return Usage(parse_cpu(parts[0], parts[1]), parse_memory(parts[2]), parse_disk(parts[3]), parse_top(parts[4]))


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read(65_536)


def parse_cpu(before: str, after: str) -> int:
    """Busy per cent between two readings of /proc/stat."""
    first, second = ([int(word) for word in text.split("\n", 1)[0].split()[1:9]] for text in (before, after))
    total = sum(second) - sum(first)
    idle = sum(second[3:5]) - sum(first[3:5])
    return 0 if total <= 0 else round(100 * (total - idle) / total)


def parse_memory(text: str) -> int:
    """Used per cent from /proc/meminfo."""
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if ":" in line and len(line.split()) > 1}
    total = sizes.get("MemTotal", 0)
    return 0 if total == 0 else round(100 * (total - sizes.get("MemAvailable", total)) / total)


def parse_disk(text: str) -> int:
    """Used per cent of / from ``df -P``."""
    words = text.strip().splitlines()[-1].split()
    return int(words[4].rstrip("%")) if len(words) > 4 and words[4].rstrip("%").isdigit() else 0


def parse_top(text: str) -> tuple[tuple[str, float], ...]:
    """The busiest programs of ``ps``."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 3 and words[-3] not in ("ps", "sh"):
            found.append((words[-3], float(words[-2])))
    return tuple(found[:_TOP])


def status_sentence(host: str, usage: Usage) -> str:
    """One unambiguous sentence (S001-52)."""
    values = {"cpu": usage.cpu, "memory": usage.memory, "disk": usage.disk}
    high = [texts.STATUS_NAMES[name] for name, value in values.items() if value > LIMIT]
    verdict = texts.STATUS_FINE if not high else texts.STATUS_ALL_HIGH if len(high) == len(values) else texts.STATUS_HIGH
    return texts.STATUS_LINE.format(host=host, **values, verdict=verdict.format(limit=LIMIT, names="、".join(high)))


def _result(host: str, usage: Usage) -> ToolResult:
    names = "、".join(f"{name}（CPU {percent}%）" for name, percent in usage.top)
    summary = status_sentence(host, usage) + (texts.STATUS_TOP.format(names=names) if names else "")
    values = {"host": host, "cpu_pct": usage.cpu, "mem_pct": usage.memory, "disk_pct": usage.disk}
    return ToolResult(summary, raw={**values, "top": usage.top}, values=values)
