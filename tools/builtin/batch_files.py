"""Works on many files at once in the tenant's exchange folder (``data_dir/files/<tenant>``): list, or pack into an archive."""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools import texts
from tools.base import Checked, Prepared, Tool, ToolContext, ToolRefused, ToolResult

_MAX_FILES = 500
_MAX_BYTES = 500 * 1024 * 1024
_SHOWN = 10
_PATTERN = {
    "type": "string",
    "pattern": r"^[^/\\.\-\x00-\x1f][^/\\\x00-\x1f]{0,79}$",
    "title": "文件名",
    "description": "文件名的写法，可以用 * 和 ?，例如 *.csv",
}


def _folder(context: ToolContext) -> Path:
    return (context.settings.data_dir / "files" / context.tenant_id).resolve()


def _matching(folder: Path, pattern: str) -> list[tuple[str, int]]:
    """Plain files directly inside the folder, by name; never a link, never a hidden file."""
    try:
        entries = [entry for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
    names = [entry for entry in entries if not entry.name.startswith(".") and fnmatch.fnmatchcase(entry.name, pattern)]
    return sorted((entry.name, entry.stat(follow_symlinks=False).st_size) for entry in names)[:_MAX_FILES]


async def _list(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    found = await asyncio.to_thread(_matching, _folder(context), arguments["pattern"])
    if not found:
        return ToolResult(texts.BATCH_EMPTY.format(pattern=arguments["pattern"]), values={"count": 0})
    names = "、".join(name for name, _ in found[:_SHOWN]) + ("…" if len(found) > _SHOWN else "")
    size = _size(sum(size for _, size in found))
    summary = texts.BATCH_LISTED.format(count=len(found), pattern=arguments["pattern"], size=size, names=names)
    return ToolResult(summary, raw=found, values={"count": len(found)})


async def _prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    found = await asyncio.to_thread(_matching, _folder(context), arguments["pattern"])
    if not found or sum(size for _, size in found) > _MAX_BYTES:
        raise ToolRefused("nothing to pack", user_text=texts.BATCH_EMPTY.format(pattern=arguments["pattern"]))
    return Prepared(arguments)


async def _archive(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    folder, target = _folder(context), _target(context)
    count = await asyncio.to_thread(_pack, folder, arguments["pattern"], target)
    return ToolResult(
        texts.BATCH_ZIPPED.format(count=count, archive=target.name), values={"count": count, "archive": target.name}
    )


async def _check(context: ToolContext, arguments: Mapping[str, Any]) -> Checked:
    """The archive appears under its name in one step."""
    return "done" if await asyncio.to_thread(_target(context).is_file) else "not_done"


def _target(context: ToolContext) -> Path:
    return _folder(context) / f"archive-{hashlib.sha256(context.call_key.encode()).hexdigest()[:12]}.zip"


def _pack(folder: Path, pattern: str, target: Path) -> int:
    found = [name for name, _ in _matching(folder, pattern) if not re.fullmatch(r"archive-[0-9a-f]{12}\.zip", name)]
    unfinished = folder / f".{target.name}"
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in found:
            archive.write(folder / name, name)
    os.replace(unfinished, target)
    return len(found)


def _size(count: int) -> str:
    return f"{count / 1_048_576:.1f} MB" if count >= 1_048_576 else f"{count / 1024:.1f} KB"


def _parameters() -> dict[str, Any]:
    return {"type": "object", "properties": {"pattern": _PATTERN}, "required": ["pattern"], "additionalProperties": False}


files_list = Tool(
    name="files_list",
    title="批量查文件",
    description="列出交换目录里符合写法的文件",
    parameters=_parameters(),
    run=_list,
    tool_class="script",
    read_only=True,
    roles=frozenset({"server_access", "operator"}),
    labels={"pattern": "文件名"},
    examples=("有哪些 *.csv 文件",),
    triggers=("批量查文件", "有哪些文件", "列出文件"),
)
files_archive = Tool(
    name="files_archive",
    title="批量打包文件",
    description="把交换目录里符合写法的文件打包成一个压缩包",
    parameters=_parameters(),
    run=_archive,
    prepare=_prepare,
    check=_check,
    tool_class="script",
    idempotent=True,
    timeout_s=120.0,
    long=True,
    roles=frozenset({"server_access", "operator"}),
    confirm_template="打包 {pattern}",
    labels={"pattern": "文件名"},
    examples=("把 *.log 打包",),
    triggers=("批量打包", "打包文件", "压缩文件"),
)
