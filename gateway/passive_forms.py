"""The passive reply forms both platforms share: from a part's send-JSON to the tree of a reply document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.protocol import InboundMessage
from gateway.channel import Opened, Part
from gateway.payload import as_list, child, id_of, parse, text_of

Tree = dict[str, Any]


def kind_of(part: Part) -> str:
    """The platform's message type: what the payload names, else the part's kind."""
    return text_of(part.payload, "msgtype") or part.kind


def header(message: InboundMessage, opened: Opened, *, from_name: str, now_ms: int) -> Tree:
    """Who answers whom: sender and recipient of the callback, swapped. ``from_name`` is used where the callback names none."""
    fields = message.fields or parse(opened.payload, is_json=opened.is_json)
    return {
        "ToUserName": id_of(fields, "FromUserName") or message.user_id,
        "FromUserName": id_of(fields, "ToUserName") or from_name,
        "CreateTime": now_ms // 1000,
    }


def text(part: Part) -> Tree | None:
    """A text reply; None where there is nothing to say (an empty Content is never sent)."""
    content = text_of(child(part.payload, "text"), "content")
    return {"MsgType": "text", "Content": content} if content.strip() else None


def media(part: Part, kind: str) -> Tree | None:
    """An image, voice or video reply by media_id; None without one."""
    body = child(part.payload, kind)
    media_id = text_of(body, "media_id")
    if not media_id:
        return None
    inner = {"MediaId": media_id}
    if kind == "video":
        inner |= _present(body, {"title": "Title", "description": "Description"})
    return {"MsgType": kind, kind.capitalize(): inner}


def articles(part: Part) -> list[Tree]:
    """The articles of a news part, in the passive spelling."""
    names = {"title": "Title", "description": "Description", "picurl": "PicUrl", "url": "Url"}
    given = as_list(child(part.payload, "news").get("articles"))
    return [{to: text_of(item, name) for name, to in names.items()} for item in given if isinstance(item, Mapping)]


def news(part: Part) -> Tree | None:
    """A news reply; None without an article."""
    items = articles(part)
    return {"MsgType": "news", "ArticleCount": len(items), "Articles": {"item": items}} if items else None


def music(part: Part) -> Tree | None:
    """A music reply (公众号); None without its thumbnail, which the platform requires."""
    body = child(part.payload, "music")
    names = {"title": "Title", "description": "Description", "musicurl": "MusicUrl", "hqmusicurl": "HQMusicUrl"}
    thumb = text_of(body, "thumb_media_id")
    return {"MsgType": "music", "Music": {**_present(body, names), "ThumbMediaId": thumb}} if thumb else None


def _present(body: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    return {to: text_of(body, name) for name, to in names.items() if text_of(body, name)}
