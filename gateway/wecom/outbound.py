"""What a reply becomes on WeCom: parts in message/send shape, their simpler forms, and the frozen bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from agent.protocol import Reply
from config.errors import Refused
from config.schema import WecomAccount
from gateway.channel import Part, Target
from gateway.markdown import looks_like_markdown, to_plain_text
from gateway.rendering import (
    OURS,
    TEXT_LIMIT_BYTES,
    link_of,
    media_body,
    media_notice,
    plain_text,
    safe_line,
    subset_text,
    text_part,
    text_parts,
)
from gateway.split import truncate
from gateway.texts import AI_LABEL
from gateway.transport import json_bytes
from gateway.wecom import cards, texts

DUPLICATE_INTERVAL_S = 1800
MEDIA_LIMITS_BYTES = {"image": 10_485_760, "voice": 2_097_152, "video": 10_485_760, "file": 20_971_520}
_MAX_USERS, _MAX_GROUPS, _MAX_ARTICLES = 1000, 100, 8
_USER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_OPEN_ID = re.compile(r"o[A-Za-z0-9_-]{27}")
_EXTERNAL = re.compile(r"w[mo][A-Za-z0-9_-]{30}")
_WEBHOOK_KINDS = frozenset({"text", "markdown", "news", "image", "file", "voice"})


def render(account: WecomAccount, reply: Reply, *, max_parts: int) -> list[Part]:
    """See Channel.render."""
    if reply.kind in ("image", "voice", "file"):
        return [_media(reply)]
    if reply.kind == "news":
        return _news(reply)
    if reply.kind == "template_card":
        return _card(account, reply, max_parts)
    if reply.kind == "card_update":
        return _card_update(reply)
    return _text(account, reply, max_parts)  # text, markdown; template and msgmenu in their readable form


def degrade(part: Part) -> Part | None:
    """The simpler form of a refused part: markdown and cards as text, media and news as link or notice; None for a text."""
    if part.kind == "text":
        return None
    body = part.payload.get(part.kind)
    body = body if isinstance(body, Mapping) else {}
    if part.kind == "markdown":
        content = str(body.get("content") or part.text)
        plain = to_plain_text(content)
        return text_part(plain if _fits(plain) else content)
    if part.kind == "template_card":
        return text_part(truncate(part.text or cards.readable(body), TEXT_LIMIT_BYTES))
    if part.kind == "news":
        lines = [f"{a.get('title', '')} {a.get('url', '')}".strip() for a in body.get("articles") or ()]
        return text_part(truncate("\n".join(lines), TEXT_LIMIT_BYTES))
    if part.kind in MEDIA_LIMITS_BYTES:
        return text_part(media_notice(part.kind, body))
    return text_part(truncate(part.text, TEXT_LIMIT_BYTES)) if part.text.strip() else None


def request(account: WecomAccount, part: Part, target: Target, *, duplicate_check: bool, key: str) -> dict[str, Any]:
    """The message/send (or update_template_card) request for this part and these receivers, media uploaded before.

    Raises Refused for receivers that are no members of a company: an openid or an external contact (DEL-25)."""
    users = [check_user(user) for user in target.users]
    if part.kind == "card_update":
        return {"userids": users, "agentid": account.agent_id, **part.payload}
    if len(users) > _MAX_USERS or len(target.departments) > _MAX_GROUPS or len(target.tags) > _MAX_GROUPS:
        raise Refused("at most 1000 members, 100 departments and 100 tags a message", code="too_many_targets")
    if not (users or target.departments or target.tags):
        raise Refused("the message has no receiver", code="no_target")
    body: dict[str, Any] = {}
    for name, ids in (("touser", users), ("toparty", target.departments), ("totag", target.tags)):
        if ids:
            body[name] = "|".join(ids)
    body |= {"msgtype": part.kind, "agentid": account.agent_id, part.kind: _clean(part.payload.get(part.kind))}
    if part.kind == "template_card" and not body["template_card"].get("task_id"):
        body["template_card"]["task_id"] = task_id_of(key)
    if duplicate_check:
        body |= {"enable_duplicate_check": 1, "duplicate_check_interval": DUPLICATE_INTERVAL_S}
    return body


def webhook_request(part: Part) -> dict[str, Any]:
    """The webhook/send request of a group robot (path/91770); cards and other kinds go as text."""
    shown = part if part.kind in _WEBHOOK_KINDS else degrade(part)
    if shown is None:
        raise Refused(f"a group robot cannot send {part.kind}", code="bad_kind")
    return {"msgtype": shown.kind, shown.kind: _clean(shown.payload.get(shown.kind))}


def check_user(user: str) -> str:
    """The id if it can be a member's userid. Raises Refused."""
    if user == "@all":
        return user
    if _OPEN_ID.fullmatch(user) or _EXTERNAL.fullmatch(user):
        raise Refused(
            "this id belongs to an Official Account follower or an external contact, not to a member", code="wrong_id_type"
        )
    if not _USER_ID.fullmatch(user):
        raise Refused("a WeCom userid has 1 to 64 letters, digits, and _ - @ .", code="bad_user_id")
    return user


def task_id_of(key: str) -> str:
    """A card's task_id from the row's key: the same for each attempt, so that a repeat is recognized (42014)."""
    return "yz_" + hashlib.sha256(key.encode()).hexdigest()[:40]


def freeze_bytes(body: Mapping[str, Any]) -> bytes:
    """The exact bytes of a request."""
    return json_bytes(body)


def _text(account: WecomAccount, reply: Reply, max_parts: int) -> list[Part]:
    suffix = AI_LABEL if account.ai_label and reply.source == "model" else ""
    if account.markdown and (reply.kind == "markdown" or (reply.source == "model" and looks_like_markdown(reply.text))):
        return text_parts(subset_text(reply, suffix=suffix), "markdown", max_parts=max_parts)
    return text_parts(plain_text(reply, suffix=suffix), "text", max_parts=max_parts)


def _media(reply: Reply) -> Part:
    body = media_body(reply)
    return Part(reply.kind, {"msgtype": reply.kind, reply.kind: body}, reply.text or media_notice(reply.kind, body))


def _news(reply: Reply) -> list[Part]:
    articles = [_article(item) for item in reply.data.get("articles") or () if isinstance(item, Mapping)]
    articles = [article for article in articles if article["title"] and article["url"]]
    parts = []
    for start in range(0, len(articles), _MAX_ARTICLES):
        chosen = articles[start : start + _MAX_ARTICLES]
        text = "\n".join(f"{article['title']} {article['url']}" for article in chosen)
        parts.append(Part("news", {"msgtype": "news", "news": {"articles": chosen}}, text))
    return parts


def _article(item: Mapping[str, Any]) -> dict[str, str]:
    article = {"title": truncate(safe_line(str(item.get("title") or "")), 128)}
    if item.get("description"):
        article["description"] = truncate(safe_line(str(item["description"]), 512), 512)
    article["url"] = link_of(item.get("url"))
    picture = link_of(item.get("picurl"))
    return {**article, "picurl": picture} if picture else article


def _card(account: WecomAccount, reply: Reply, max_parts: int) -> list[Part]:
    whole = reply.source != "confirm_prompt" or cards.shows_everything(reply.data)
    card = cards.build(reply.data, ours=reply.source in OURS) if whole else None
    text = reply.text or cards.readable(reply.data)
    if card is None:
        source = reply.source if reply.source in OURS else "tool"
        return _text(account, Reply(text=text, source=source), max_parts)
    return [Part("template_card", {"msgtype": "template_card", "template_card": card}, text)]


def _card_update(reply: Reply) -> list[Part]:
    payload: dict[str, Any] = {}
    if reply.data.get("response_code"):
        payload["response_code"] = str(reply.data["response_code"])
    given = reply.data.get("card") or reply.data.get("template_card")
    card = cards.build(given, ours=reply.source in OURS) if isinstance(given, Mapping) else None
    name = reply.data.get("replace_name") or reply.text
    if card is not None:
        replace_text = reply.data.get("replace_text")
        payload["template_card"] = {**card, "replace_text": safe_line(str(replace_text), 20)} if replace_text else card
    else:
        payload["button"] = {"replace_name": safe_line(str(name or texts.CARD_REPLACED), 20)}
    return [Part("card_update", payload, reply.text or str(name or texts.CARD_REPLACED))]


def _clean(body: object) -> dict[str, Any]:
    """A part's own object without what only we read."""
    kept = dict(body) if isinstance(body, Mapping) else {}
    return {name: value for name, value in kept.items() if name not in ("path", "file_name", "url") or "articles" in kept}


def _fits(text: str) -> bool:
    return len(text.encode()) <= TEXT_LIMIT_BYTES
