"""media/upload and media/get of both platforms: temporary files, three days, sizes as documented."""

from __future__ import annotations

import secrets
from typing import Any

from aiohttp import BodyPartReader, web

from .answers import Refused
from .calls import Call
from .world import World

TTL_MS = 259_200_000
_WECOM_MAX = {"image": 10 << 20, "voice": 2 << 20, "video": 10 << 20, "file": 20 << 20}
_MP_MAX = {"image": 10 << 20, "voice": 2 << 20, "video": 10 << 20, "thumb": 64 << 10}
RANGE_NEEDED_BYTES = 20 << 20


def store_media(world: World, account: str, kind: str, filename: str, content_type: str, data: bytes) -> dict[str, Any]:
    """Keep a file as a media item of this account and return the item."""
    media_id = secrets.token_urlsafe(33)
    item = {
        "media_id": media_id,
        "account": account,
        "type": kind,
        "filename": filename,
        "content_type": content_type,
        "data": data,
        "created_ms": world.clock.now_ms(),
    }
    world.media[media_id] = item
    return item


def live_media(call: Call, media_id: str) -> dict[str, Any]:
    """The media item; media are shared by the apps of one corp. Raises Refused 40007."""
    item = call.world.media.get(media_id)
    if item is None or item["created_ms"] + TTL_MS <= call.world.clock.now_ms():
        raise Refused(40007)
    owner = call.world.accounts.get(item["account"])
    if owner is None or owner.app_id != call.owner.app_id:
        raise Refused(40007)
    return dict(item)


async def upload(call: Call) -> dict[str, Any]:
    """POST media/upload, multipart field ``media``."""
    account = call.owner
    if not account.wecom and not account.verified:
        raise Refused(48001)
    kind = call.query.get("type", "")
    item = await receive(call, account.id, kind, _WECOM_MAX if account.wecom else _MP_MAX)
    created = call.world.clock.now_s()
    if account.wecom:
        return {"errcode": 0, "errmsg": "", "type": kind, "media_id": item["media_id"], "created_at": str(created)}
    name = "thumb_media_id" if kind == "thumb" else "media_id"
    return {"type": kind, name: item["media_id"], "created_at": created}


async def receive(call: Call, account: str, kind: str, largest: dict[str, int]) -> dict[str, Any]:
    """Read one multipart upload into the store. Raises Refused."""
    if kind not in largest:
        raise Refused(40004)
    if not call.request.content_type.startswith("multipart/"):
        raise Refused(44001)
    reader = await call.request.multipart()
    data, filename, content_type = b"", "", "application/octet-stream"
    while (part := await reader.next()) is not None:
        if isinstance(part, BodyPartReader) and part.name == "media":
            data = bytes(await part.read())
            filename = part.filename or ""
            content_type = part.headers.get("Content-Type", content_type)
    call.notes["upload"] = {"filename": filename, "bytes": len(data), "content_type": content_type}
    if not data:
        raise Refused(44001)
    if len(data) <= 5:
        raise Refused(40006)
    if len(data) > largest[kind]:
        raise Refused(45001)
    return store_media(call.world, account, kind, filename, content_type, data)


async def get(call: Call) -> dict[str, Any] | web.StreamResponse:
    """GET media/get: the bytes, a Range, or ``video_url`` for an Official Account's video."""
    item = live_media(call, call.query.get("media_id", ""))
    data: bytes = item["data"]
    if not call.owner.wecom and item["type"] == "video":
        base = f"http://{call.request.host}"
        return {"video_url": f"{base}/_media/{item['media_id']}"}
    asked = call.request.headers.get("Range")
    headers = {"Content-Disposition": f'attachment; filename="{item["filename"] or item["media_id"]}"'}
    if asked is None:
        if len(data) > RANGE_NEEDED_BYTES:
            raise Refused(830002)
        return web.Response(body=data, content_type=item["content_type"].split(";")[0], headers=headers)
    try:
        span = call.request.http_range
    except ValueError:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    start, stop, _ = span.indices(len(data))
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return web.Response(status=206, body=data[start:stop], content_type=item["content_type"].split(";")[0], headers=headers)
