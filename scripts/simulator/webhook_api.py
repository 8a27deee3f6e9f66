"""Group robots: webhook/send and webhook/upload_media, twenty a minute."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from .answers import Refused
from .calls import Call, ok
from .cards import card_text
from .media_api import receive
from .replies import cut
from .world import GROUP

PER_MINUTE = 20
MARKDOWN_BYTES = 4096


def _robot(call: Call) -> str:
    """The robot's key; keys that begin with ``bad`` stand for removed robots. Raises Refused 93000."""
    key = call.query.get("key", "")
    if len(key) < 8 or key.startswith("bad"):
        raise Refused(93000)
    return key


async def send(call: Call) -> dict[str, Any]:
    """POST webhook/send (rule webhook)."""
    key = _robot(call)
    request = call.json()
    kind = str(request.get("msgtype") or "")
    part = request.get(kind)
    if not isinstance(part, dict):
        raise Refused(40008)
    text = _text(kind, part)
    now_ms = call.world.clock.now_ms()
    recent = [at for at in call.world.webhook_sent_ms.get(key, []) if at > now_ms - 60_000]
    if len(recent) >= PER_MINUTE:
        raise Refused(45009)
    call.world.webhook_sent_ms[key] = [*recent, now_ms]
    if call.drop is None:
        call.world.show(call.world.person(GROUP, key), "push", kind, text, None if kind == "text" else part)
    return ok()


def _text(kind: str, part: dict[str, Any]) -> str:
    content = str(part.get("content") or "")
    if kind == "text":
        if not content:
            raise Refused(44004)
        return cut(content)
    if kind in ("markdown", "markdown_v2"):
        if len(content.encode()) > MARKDOWN_BYTES:
            raise Refused(40058, f"{kind}.content exceed max length {MARKDOWN_BYTES}. ")
        return content
    if kind == "image":
        try:
            data = base64.b64decode(str(part.get("base64") or ""), validate=True)
        except ValueError:
            raise Refused(40058, "image base64 invalid. ") from None
        if hashlib.md5(data).hexdigest() != part.get("md5"):  # noqa: S324 - the platform's field
            raise Refused(40058, "image md5 mismatch. ")
        return "[图片]"
    if kind == "template_card":
        return card_text(part)
    if kind == "news":
        articles = part.get("articles") or []
        if not 1 <= len(articles) <= 8:
            raise Refused(45008)
        return str(articles[0].get("title") or "")
    if kind in ("file", "voice"):
        return f"[{kind}]"
    raise Refused(40008)


async def upload_media(call: Call) -> dict[str, Any]:
    """POST webhook/upload_media."""
    _robot(call)
    item = await receive(call, GROUP, call.query.get("type", "file"), {"file": 20 << 20, "voice": 2 << 20})
    created = str(call.world.clock.now_s())
    return ok(type=item["type"], media_id=item["media_id"], created_at=created)
