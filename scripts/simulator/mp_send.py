"""custom/send, custom/typing and template/send of Official Accounts, with windows and counters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from .answers import Refused
from .callbacks import Exchange
from .calls import Call, ok
from .media_api import live_media
from .payloads import event_fields, to_xml
from .people import Person
from .replies import TEXT_LIMIT_BYTES

TYPING_MS = 15_000
CLIENT_MSG_ID_MS = 600_000


def _permitted(call: Call) -> None:
    if not call.owner.verified:
        raise Refused(48001)


def _follower(call: Call, request: Mapping[str, Any]) -> Person:
    person = call.world.people.find(call.owner.id, str(request.get("touser") or ""))
    if person is None:
        raise Refused(40003)
    return person


async def custom_send(call: Call) -> dict[str, Any]:
    """POST /cgi-bin/message/custom/send (rule oa.custom)."""
    request = call.json()
    _permitted(call)
    person = _follower(call, request)
    kind = str(request.get("msgtype") or "")
    text, card = _content(call, kind, request)
    refusal = person.take_window(call.world.clock.now_ms())
    if refusal:
        raise Refused(refusal)
    if call.drop is None:
        call.world.show(person, "push", kind, text, card)
        call.notes["delivered"] = [person.user]
    return ok()


def _content(call: Call, kind: str, request: Mapping[str, Any]) -> tuple[str, Any]:
    part = request.get(kind)
    if kind not in ("text", "image", "voice", "video", "music", "news", "mpnews", "msgmenu", "wxcard", "miniprogrampage"):
        raise Refused(40008)
    if not isinstance(part, Mapping):
        raise Refused(47001)
    if kind == "text":
        content = str(part.get("content") or "")
        if not content:
            raise Refused(44004)
        if len(content.encode()) > TEXT_LIMIT_BYTES:
            raise Refused(45002)
        return content, None
    if kind in ("image", "voice", "video"):
        live_media(call, str(part.get("media_id") or ""))
        return {"image": "[图片]", "voice": "[语音]", "video": "[视频]"}[kind], dict(part)
    if kind == "msgmenu":
        items = part.get("list") or []
        lines = [str(part.get("head_content") or ""), *(str(i.get("content", "")) for i in items)]
        return "\n".join([line for line in [*lines, str(part.get("tail_content") or "")] if line]), dict(part)
    if kind == "news":
        articles = part.get("articles") or []
        if len(articles) != 1:
            raise Refused(45008)
        return str(articles[0].get("title") or ""), dict(part)
    return str(part.get("title") or f"[{kind}]"), dict(part)


async def custom_typing(call: Call) -> dict[str, Any]:
    """POST /cgi-bin/message/custom/typing: 45080 without an act in 30 s, 45081 while it still shows."""
    request = call.json()
    _permitted(call)
    person = _follower(call, request)
    now_ms = call.world.clock.now_ms()
    if request.get("command") == "CancelTyping":
        person.typing_until_ms = 0
        return ok()
    if person.active_at_ms <= now_ms - 30_000:
        raise Refused(45080)
    if person.typing_until_ms > now_ms:
        raise Refused(45081)
    person.typing_until_ms = now_ms + TYPING_MS
    call.world.log.publish("typing", {"account": person.account, "user": person.user})
    return ok()


async def template_send(call: Call) -> dict[str, Any]:
    """POST /cgi-bin/message/template/send; the result follows as TEMPLATESENDJOBFINISH."""
    request = call.json()
    _permitted(call)
    person = _follower(call, request)
    if not str(request.get("template_id") or ""):
        raise Refused(40037)
    if not person.following:
        raise Refused(43004)
    now_ms = call.world.clock.now_ms()
    client_id = str(request.get("client_msg_id") or "")
    known = call.world.client_msg_ids.get((call.owner.id, client_id)) if client_id else None
    if known is not None and known[0] > now_ms:
        call.notes["duplicate"] = True
        return ok(msgid=known[1])
    msgid = call.world.next_number()
    if client_id:
        call.world.client_msg_ids[(call.owner.id, client_id)] = (now_ms + CLIENT_MSG_ID_MS, msgid)
    status = _template_status(call)
    if status == "success" and call.drop is None:
        data = request.get("data") or {}
        text = "\n".join(str(item.get("value", "")) if isinstance(item, Mapping) else str(item) for item in data.values())
        card = {"template_id": request["template_id"], "url": request.get("url"), "data": data}
        call.world.show(person, "push", "template", text, card, msgid=str(msgid))
        call.notes["delivered"] = [person.user]
    _finish_later(call, person, msgid, status)
    return ok(msgid=msgid)


def _template_status(call: Call) -> str:
    if call.world.faults.take("template_blocked", call.owner.id):
        return "failed:user block"
    return "failed: system failed" if call.world.faults.take("template_failed", call.owner.id) else "success"


def _finish_later(call: Call, person: Person, msgid: int, status: str) -> None:
    request = {"event": "TEMPLATESENDJOBFINISH", "fields": {"MsgID": msgid, "Status": status}}
    fields = event_fields(call.owner, person.user, request, call.world.clock.now_s())
    exchange = Exchange(call.owner, person, to_xml(fields), None, "模板消息结果")
    asyncio.get_running_loop().call_later(0.05, call.callbacks.start, exchange)
