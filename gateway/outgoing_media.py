"""Uploads what we send, right before it is sent, and remembers the media ids while they are good."""

from __future__ import annotations

import asyncio
import json
import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from config.clock import Clock
from config.errors import Refused
from gateway.channel import Part
from gateway.errors import PlatformError
from gateway.transport import Answer

_GOOD_FOR_MS = 3 * 86_400_000 - 6 * 3_600_000
"""Media ids last 3 days (limits: wecom.media.ttl, oa.media.ttl); six hours of margin."""
_LEAST_BYTES = 6
_REMEMBERED = 2000

Upload = Callable[[str, str, bytes, str], Awaitable[Answer]]
"""(kind, file name, content, content type) → the platform's answer."""


class MediaUploads:
    """Media ids of one account by file, size and modification time."""

    def __init__(self, platform: str, upload: Upload, limits_bytes: Mapping[str, int], clock: Clock, root: Path | None) -> None:
        self._platform = platform
        self._upload = upload
        self._limits = limits_bytes
        self._clock = clock
        self._root = root.resolve() if root is not None else None
        self._known: dict[tuple[str, str, int, int], tuple[str, int]] = {}

    async def media_id(self, kind: str, path: str, file_name: str | None = None) -> str:
        """The media id of a file, uploaded unless a good one is known.

        Raises Refused (not a readable file under the data folder, too small, too large) or PlatformError.
        """
        file = await asyncio.to_thread(self._checked, kind, path)
        size, changed = await asyncio.to_thread(_stat, file)
        key = (kind, str(file), size, changed)
        known = self._known.get(key)
        if known is not None and self._clock.now_ms() < known[1]:
            return known[0]
        content = await asyncio.to_thread(file.read_bytes)
        name = file_name or file.name
        content_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        answer = await self._upload(kind, name, content, content_type)
        media_id = str(answer.data.get("media_id") or "")
        if not answer.ok or not media_id:
            raise PlatformError(
                "the media upload failed",
                platform=self._platform,
                errcode=answer.errcode if answer.errcode else None,
                errmsg=answer.errmsg,
                transport="not_sent" if answer.transport != "answered" else "answered",
                context=answer.context,
            )
        if len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[key] = (media_id, self._clock.now_ms() + _GOOD_FOR_MS)
        return media_id

    async def content(self, kind: str, path: str) -> bytes:
        """The bytes of a file that may be sent as ``kind``. Raises Refused."""
        file = await asyncio.to_thread(self._checked, kind, path)
        return await asyncio.to_thread(file.read_bytes)

    async def with_media_id(self, part: Part) -> Part:
        """The part as the platform takes it: a file it names by path is uploaded. Raises as ``media_id`` does."""
        body = part.payload.get(part.kind)
        if not isinstance(body, Mapping) or not body.get("path") or body.get("media_id"):
            return part
        media_id = await self.media_id(part.kind, str(body["path"]), body.get("file_name"))
        return Part(part.kind, {"msgtype": part.kind, part.kind: {"media_id": media_id}}, part.text, part.page)

    def forget_sent(self, request: bytes) -> None:
        """The platform does not know the media id of this request any more (40007): the next freeze uploads again."""
        data: Any = json.loads(request)
        inner = data.get(data.get("msgtype")) if isinstance(data, dict) else None
        media_id = str(inner.get("media_id") or "") if isinstance(inner, dict) else ""
        self._known = {key: known for key, known in self._known.items() if known[0] != media_id}

    def _checked(self, kind: str, path: str) -> Path:
        try:
            file = Path(path).resolve(strict=True)
        except OSError:
            raise Refused("the file to send is not there", code="media_missing") from None
        if self._root is not None and not file.is_relative_to(self._root):
            raise Refused("the file to send is outside the data folder", code="media_outside")
        if not file.is_file():
            raise Refused("the path to send is not a file", code="media_missing")
        size = file.stat().st_size
        if size < _LEAST_BYTES or size > self._limits.get(kind, 0):
            raise Refused(f"a {kind} of {size} bytes cannot be sent here", code="media_size")
        return file


def _stat(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns
