"""Pages of the local knowledge folder (``data_dir/wiki/<tenant>``): read, list, create, update, append."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools import texts
from tools.base import Checked, Prepared, Tool, ToolContext, ToolRefused, ToolResult, phrases

_MAX_BYTES = 256 * 1024
_SHOWN_CHARS = 1200
_BAD = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]|^\.|\.$|^\s|\s$")
_TITLE = {"type": "string", "minLength": 1, "maxLength": 60, "title": "标题", "description": "页面标题"}


def page_path(context: ToolContext, title: str) -> Path:
    """The file of a page: always directly inside the tenant's folder. Raises ToolRefused for a title that could leave it."""
    if not title or len(title.encode()) > 200 or _BAD.search(title):
        raise ToolRefused("not a page title", user_text=texts.WIKI_BAD_TITLE)
    folder = _folder(context)
    path = folder / f"{title}.md"
    if path.parent != folder or path.is_symlink():
        raise ToolRefused("not inside the folder", user_text=texts.WIKI_BAD_TITLE)
    return path


def _folder(context: ToolContext) -> Path:
    return (context.settings.data_dir / "wiki" / context.tenant_id).resolve()


async def _read(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    title = arguments["title"]
    path = page_path(context, title)
    text = await asyncio.to_thread(_text_of, path)
    if text is None:
        near = difflib.get_close_matches(title, await asyncio.to_thread(_titles, context), 3, 0.4)
        if near:
            return ToolResult(texts.WIKI_MISSING_NEAR.format(title=title, near="、".join(near)), values={"found": False})
        return ToolResult(texts.WIKI_MISSING.format(title=title), values={"found": False})
    shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
    return ToolResult(texts.WIKI_READ.format(title=title, text=shown), raw=text, values={"found": True, "text": shown})


async def _list(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    titles = await asyncio.to_thread(_titles, context)
    if not titles:
        return ToolResult(texts.WIKI_EMPTY, values={"count": 0})
    return ToolResult(texts.WIKI_LIST.format(count=len(titles), titles="、".join(titles[:50])), values={"count": len(titles)})


async def _prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    path = page_path(context, arguments["title"])
    exists = await asyncio.to_thread(path.is_file)
    wanted = await asyncio.to_thread(_wanted, path, arguments)
    if arguments["mode"] == "create" and exists and _text_of(path) != wanted:
        raise ToolRefused("the page exists", user_text=texts.WIKI_EXISTS.format(title=arguments["title"]))
    if arguments["mode"] != "create" and not exists:
        raise ToolRefused("no such page", user_text=texts.WIKI_MISSING.format(title=arguments["title"]))
    return Prepared(arguments, {"mode": _MODES[arguments["mode"]]})


async def _write(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    path = page_path(context, arguments["title"])
    await asyncio.to_thread(_replace, path, _wanted(path, arguments))
    return ToolResult(
        texts.WIKI_WRITTEN[arguments["mode"]].format(title=arguments["title"]), values={"title": arguments["title"]}
    )


async def _check(context: ToolContext, arguments: Mapping[str, Any]) -> Checked:
    """A write replaces the file in one step, so the page tells whether it happened; of words that stand there twice,
    nobody knows."""
    text = await asyncio.to_thread(_text_of, page_path(context, arguments["title"]))
    content = str(arguments["content"]).rstrip("\n")
    if arguments["mode"] != "append":
        return "done" if text is not None and text.rstrip("\n") == content else "not_done"
    if text is None or not text.rstrip("\n").endswith(f"\n\n{content}"):
        return "not_done"
    return "done" if text.count(content) == 1 else "unknown"


def _wanted(path: Path, arguments: Mapping[str, Any]) -> str:
    content = str(arguments["content"]).rstrip("\n") + "\n"
    if arguments["mode"] != "append":
        return content
    return ((_text_of(path) or "").rstrip("\n") + "\n\n" + content).lstrip("\n")


def _text_of(path: Path) -> str | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return None


def _titles(context: ToolContext) -> list[str]:
    try:
        return sorted(entry.name[:-3] for entry in os.scandir(_folder(context)) if entry.is_file() and entry.name.endswith(".md"))
    except OSError:
        return []


def _replace(path: Path, text: str) -> None:
    """Write beside, then rename: a reader or a crash never sees half a page."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".page-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


_MODES = {"create": "新建", "update": "整页替换", "append": "追加到末尾"}

wiki_page_read = Tool(
    name="wiki_page_read",
    title="查知识库页面",
    description="读知识库的一个页面",
    parameters={"type": "object", "properties": {"title": _TITLE}, "required": ["title"], "additionalProperties": False},
    run=_read,
    labels={"title": "标题"},
    examples=("看一下知识库里的《上线流程》",),
    triggers=phrases(
        "查知识库页面、知识库页面、打开知识库页面、知识库里、知识库 查、查知识库、看知识库、看页面、打开页面、查文档、"
        "看文档、查 文档、看 文档"
    ),
)
wiki_page_list = Tool(
    name="wiki_page_list",
    title="知识库目录",
    description="列出知识库的页面",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
    run=_list,
    examples=("知识库有哪些页面",),
    triggers=phrases(
        "知识库目录、有哪些页面、有哪些文档、文档列表、页面列表、知识库有什么、知识库里有什么、知识库里有哪些、"
        "知识库有哪些、^知识库$"
    ),
)
wiki_page_write = Tool(
    name="wiki_page_write",
    title="写知识库页面",
    description="新建、更新或追加知识库的一个页面",
    parameters={
        "type": "object",
        "properties": {
            "title": _TITLE,
            "content": {"type": "string", "minLength": 1, "maxLength": 1200, "title": "内容", "description": "页面内容"},
            "mode": {
                "type": "string",
                "enum": ["create", "update", "append"],
                "title": "方式",
                "description": "create=新建/创建/写一篇/写一页 update=更新/替换/改为/改成 append=追加/补充",
            },
        },
        "required": ["title", "content", "mode"],
        "additionalProperties": False,
    },
    run=_write,
    prepare=_prepare,
    check=_check,
    tool_class="operation",
    confirm_template="写页面《{title}》",
    labels={"title": "标题", "content": "内容", "mode": "方式"},
    examples=("新建页面“值班表”，内容是：周一张三",),
    triggers=phrases(
        "新建页面、知识库里写、知识库写、知识库里建、建 页面、写页面、写 页面、更新页面、改页面、追加 页面、写文档、"
        "写 文档、新建文档、更新文档、写知识库页面、写进知识库、写到知识库、记到知识库、末尾追加、追加到、》 追加、"
        "》更新为、》改为、》改成、》替换为"
    ),
)
