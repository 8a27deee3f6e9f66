"""What a reply becomes on an Official Account: parts in custom/send shape, their simpler forms, and the request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from agent.protocol import Reply
from config.errors import Refused
from config.schema import MpAccount
from gateway.channel import Part, Target
from gateway.rendering import TEXT_LIMIT_BYTES, link_of, media_body, media_notice, plain_text, safe_line, text_part, text_parts
from gateway.split import truncate
from gateway.texts import AI_LABEL

MEDIA_LIMITS_BYTES = {"image": 10_485_760, "voice": 2_097_152, "video": 10_485_760}
OFFER_BYTES = 64
"""Left free in each message of several, for the line that offers the rest (an account without push hands out one a time)."""
_OPEN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MENU_ITEMS = 10


def render(account: MpAccount, reply: Reply, *, max_parts: int) -> list[Part]:
    """See Channel.render. Files and cards have no form here: they go as text."""
    if reply.kind in ("image", "voice"):
        body = media_body(reply)
        return [Part(reply.kind, {"msgtype": reply.kind, reply.kind: body}, reply.text or media_notice(reply.kind, body))]
    if reply.kind == "file":
        return [text_part(media_notice("file", media_body(reply)))]
    if reply.kind == "news":
        return _news(reply)
    if reply.kind == "msgmenu":
        menu = _menu(reply)
        return [menu] if menu is not None else _text(account, reply, max_parts)
    if reply.kind == "template":
        return _template(reply)
    if reply.kind == "card_update":
        return []  # nothing to update: there are no cards here
    return _text(account, reply, max_parts)


def degrade(part: Part) -> Part | None:
    """The simpler form of a refused part; None for a text, and for a template message (it may go only as such)."""
    if part.kind in ("text", "template"):
        return None
    body = part.payload.get(part.kind)
    body = body if isinstance(body, Mapping) else {}
    if part.kind in MEDIA_LIMITS_BYTES:
        return text_part(media_notice(part.kind, body))
    return text_part(truncate(part.text, TEXT_LIMIT_BYTES)) if part.text.strip() else None


def request(part: Part, target: Target, *, key: str) -> dict[str, Any]:
    """The custom/send or template/send request for this part and one follower. Raises Refused."""
    if len(target.users) != 1 or target.departments or target.tags or target.webhook:
        raise Refused("an Official Account message goes to exactly one follower", code="bad_target")
    open_id = target.users[0]
    if not _OPEN_ID.fullmatch(open_id):
        raise Refused("this is not an openid", code="bad_user_id")
    if part.kind == "template":
        handle = "yz" + hashlib.sha256(key.encode()).hexdigest()[:30]
        return {"touser": open_id, **part.payload, "client_msg_id": handle}
    body = part.payload.get(part.kind)
    kept = dict(body) if isinstance(body, Mapping) else {}
    if part.kind in MEDIA_LIMITS_BYTES:
        kept = {name: value for name, value in kept.items() if name in ("media_id", "title", "description", "thumb_media_id")}
    return {"touser": open_id, "msgtype": part.kind, part.kind: kept}


def _text(account: MpAccount, reply: Reply, max_parts: int) -> list[Part]:
    labelled = account.ai_label is not False and reply.source == "model"
    marked = plain_text(reply, suffix=AI_LABEL if labelled else "")
    return text_parts(marked, "text", max_parts=max_parts, spare_bytes=OFFER_BYTES)


def _news(reply: Reply) -> list[Part]:
    """One part an article: custom/send takes a single one (45008)."""
    parts = []
    for item in reply.data.get("articles") or ():
        if not isinstance(item, Mapping) or not link_of(item.get("url")):
            continue
        article = {
            "title": truncate(safe_line(str(item.get("title") or "")), 128),
            "description": truncate(safe_line(str(item.get("description") or ""), 512), 512),
            "url": link_of(item.get("url")),
            "picurl": link_of(item.get("picurl")),
        }
        text = f"{article['title']} {article['url']}"
        parts.append(Part("news", {"msgtype": "news", "news": {"articles": [article]}}, text))
    return parts


def _menu(reply: Reply) -> Part | None:
    """A msgmenu from ``{head?, items: [{id, content}], tail?}``; a click comes back with the item's id."""
    given = reply.data.get("items") or reply.data.get("list") or ()
    items = [
        {"id": str(item.get("id") or ""), "content": safe_line(str(item.get("content") or item.get("text") or ""), 60)}
        for item in given
        if isinstance(item, Mapping)
    ]
    head = str(reply.data.get("head") or reply.data.get("head_content") or reply.text)
    tail = str(reply.data.get("tail") or reply.data.get("tail_content") or "")
    if not items or len(items) > _MENU_ITEMS or any(not item["id"] or not item["content"] for item in items):
        return None
    menu = {
        "head_content": plain_text(Reply(text=head, source=reply.source)).text,
        "list": items,
        "tail_content": plain_text(Reply(text=tail, source=reply.source)).text,
    }
    if sum(len(str(value).encode()) for value in (menu["head_content"], menu["tail_content"])) > TEXT_LIMIT_BYTES:
        return None
    text = reply.text or "\n".join([head, *(item["content"] for item in items), tail]).strip()
    return Part("msgmenu", {"msgtype": "msgmenu", "msgmenu": menu}, text)


def _template(reply: Reply) -> list[Part]:
    """A template message from ``{template_id, data: {keyword1: value | {value}}, url?, miniprogram?}``."""
    fields = reply.data.get("data") or {}
    values = {
        str(name): {"value": safe_line(str(value.get("value") if isinstance(value, Mapping) else value))}
        for name, value in fields.items()
    }
    payload: dict[str, Any] = {"template_id": str(reply.data.get("template_id") or ""), "data": values}
    if link_of(reply.data.get("url")):
        payload["url"] = link_of(reply.data.get("url"))
    if isinstance(reply.data.get("miniprogram"), Mapping):
        payload["miniprogram"] = dict(reply.data["miniprogram"])
    text = reply.text or "\n".join(str(value["value"]) for value in values.values())
    return [Part("template", payload, text)] if payload["template_id"] else []
