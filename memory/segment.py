"""Words of a text: NFKC, lower case, jieba for Chinese; the dictionary is loaded once, outside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import unicodedata
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r"[a-z0-9]+(?:[-_.:][a-z0-9]+)*|[\u3400-\u9fff]+")
_STOP = frozenset(
    [
        "的",
        "了",
        "吗",
        "呢",
        "吧",
        "啊",
        "呀",
        "嘛",
        "把",
        "被",
        "给",
        "我",
        "你",
        "他",
        "她",
        "它",
        "我们",
        "你们",
        "他们",
        "请",
        "帮",
        "帮我",
        "麻烦",
        "一下",
        "一个",
        "个",
        "这",
        "那",
        "这个",
        "那个",
        "是",
        "在",
        "有",
        "和",
        "与",
        "及",
        "或",
        "也",
        "都",
        "就",
        "还",
        "很",
        "要",
        "想",
        "会",
        "能",
        "可以",
        "不",
        "没",
        "没有",
        "去",
        "来",
        "到",
        "从",
        "对",
        "为",
        "让",
        "跟",
        "上",
        "下",
        "里",
        "中",
        "后",
        "前",
        "又",
        "再",
    ]
)


@lru_cache(maxsize=4)
def segmenter_for(data_dir: Path) -> Segmenter:
    """The segmenter of a data folder, one a process; nothing is loaded yet."""
    return Segmenter(data_dir / "cache")


class Segmenter:
    """One jieba tokenizer with its dictionary cache in a folder of our own (never the shared temporary folder, where anybody
    could put one)."""

    def __init__(self, cache_folder: Path) -> None:
        self._folder = cache_folder
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    async def ready(self) -> None:
        """Load the dictionary (0.3 to 1 s the first time) without blocking the event loop."""
        if self._tokenizer is None:
            await asyncio.to_thread(self.load)

    def load(self) -> None:
        """Load the dictionary now; safe from several threads and processes."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = _open(self._folder)

    def words(self, text: str, *, split: bool = True) -> list[str]:
        """Content words of a text, in order: identifiers whole (web-01), Chinese by dictionary, stop words left out.

        ``split`` also gives the words inside longer ones (使用率: 使用, 使用率), as an index wants them.
        """
        if self._tokenizer is None:
            self.load()
        found: list[str] = []
        for piece in _TOKEN.findall(unicodedata.normalize("NFKC", text).lower()):
            if piece[0] < "\u3400":
                found.append(piece)
            else:
                found.extend(self._tokenizer.cut_for_search(piece) if split else self._tokenizer.cut(piece))
        return [word for word in found if word not in _STOP]


def _open(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package compiles with old escapes and may look for pkg_resources
        import jieba

    jieba.setLogLevel(logging.CRITICAL)  # an unwritable folder only costs the cache
    tokenizer = jieba.Tokenizer()
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tokenizer.tmp_dir = str(folder)
    tokenizer.cache_file = "jieba.cache"
    tokenizer.initialize()
    return tokenizer
