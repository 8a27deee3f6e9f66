"""What the gateway answered a callback with: verified, decrypted, and turned into what the person sees."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from .accounts import SimAccount
from .crypto import Box, CryptoError, same, sign

TEXT_LIMIT_BYTES = 2048


class BadReply(ValueError):
    """The body is not an answer the platform accepts."""


@dataclass
class Passive:
    """A passive reply. ``kind`` is its MsgType in lower case; ``text`` what it says; ``card`` its parts."""

    kind: str
    text: str
    card: dict[str, Any] | None = None
    plaintext: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


def read_reply(account: SimAccount, user: str, body: bytes) -> Passive | None:
    """The passive reply in an answer's body, None for an empty one or ``success``.

    Raises BadReply: what an Official Account shows 「该公众号暂时无法提供服务」 for, and what WeCom ignores.
    """
    if body.strip() in (b"", b"success"):
        return None
    outer = _parse(body)
    encrypted = outer.get("Encrypt", outer.get("encrypt"))
    if encrypted is None:
        if account.wecom or account.mode == "safe":
            raise BadReply("the reply is not encrypted")
        inner, plaintext = outer, body.decode("utf-8", "replace")
    else:
        plaintext = _open(account, outer, str(encrypted)).decode("utf-8", "replace")
        inner = _parse(plaintext.encode())
    if str(inner.get("ToUserName", "")).lower() != user.lower():
        raise BadReply("ToUserName is not the person who wrote")
    return _passive(inner, plaintext)


def _open(account: SimAccount, outer: dict[str, Any], encrypted: str) -> bytes:
    if account.aes_key is None or account.mode == "plain":
        raise BadReply("the account is in plain mode but the reply is encrypted")
    given = {name.lower().replace("_", ""): str(value) for name, value in outer.items()}
    expected = sign(account.callback_token, given.get("timestamp", ""), given.get("nonce", ""), encrypted.strip())
    if not same(expected, given.get("msgsignature", "")):
        raise BadReply("MsgSignature is wrong")
    try:
        return Box(account.aes_key, account.app_id).decrypt(encrypted)
    except CryptoError as error:
        raise BadReply(str(error)) from None


def _parse(body: bytes) -> dict[str, Any]:
    try:
        if body.lstrip()[:1] == b"{":
            loaded = json.loads(body)
            if isinstance(loaded, dict):
                return loaded
            raise BadReply("the JSON reply is not an object")
        root = ElementTree.fromstring(body)  # noqa: S314 - our own gateway on loopback; expat limits entity expansion
    except (ValueError, ElementTree.ParseError):
        raise BadReply("the reply is neither XML nor 'success'") from None
    if root.tag != "xml":
        raise BadReply("the reply's root element is not <xml>")
    return {child.tag: _value(child) for child in root}


def _value(element: ElementTree.Element) -> Any:
    if len(element) == 0:
        return element.text or ""
    nested: dict[str, Any] = {}
    for child in element:
        value = _value(child)
        if child.tag in nested:
            known = nested[child.tag]
            nested[child.tag] = [*known, value] if isinstance(known, list) else [known, value]
        else:
            nested[child.tag] = value
    return nested


def _passive(inner: dict[str, Any], plaintext: str) -> Passive:
    kind = str(inner.get("MsgType", "")).lower()
    if kind == "text":
        content = str(inner.get("Content", ""))
        if not content:
            raise BadReply("Content is empty")
        return Passive(kind, cut(content), None, plaintext, inner)
    if kind in ("image", "voice"):
        part = inner.get(kind.capitalize())
        if not isinstance(part, dict) or not part.get("MediaId"):
            raise BadReply(f"{kind} reply without MediaId")
        return Passive(kind, {"image": "[图片]", "voice": "[语音]"}[kind], {"media_id": part["MediaId"]}, plaintext, inner)
    if kind in ("video", "music"):
        part = inner.get(kind.capitalize())
        if not isinstance(part, dict):
            raise BadReply(f"{kind} reply without its part")
        return Passive(kind, str(part.get("Title") or f"[{kind}]"), _lowered(part), plaintext, inner)
    if kind == "news":
        return _news(inner, plaintext)
    if kind in ("update_button", "update_template_card", "update_taskcard", "transfer_customer_service"):
        part = _lowered(inner.get("Button") or inner.get("TemplateCard") or {})
        title = part.get("main_title") if isinstance(part, dict) else None
        said = part.get("replace_name") or (title or {}).get("title") if isinstance(part, dict) else ""
        return Passive(kind, str(said or ""), part, plaintext, inner)
    raise BadReply(f"MsgType {kind or '(none)'} is not a reply")


def _news(inner: dict[str, Any], plaintext: str) -> Passive:
    articles = inner.get("Articles")
    items = articles.get("item", []) if isinstance(articles, dict) else articles or []
    items = items if isinstance(items, list) else [items]
    if not items:
        raise BadReply("news reply without articles")
    lowered = [_lowered(item) for item in items if isinstance(item, dict)]
    return Passive("news", str(lowered[0].get("title", "")), {"articles": lowered}, plaintext, inner)


def _lowered(part: Any) -> Any:
    """Keys in snake_case, as message/send writes cards."""
    if isinstance(part, dict):
        return {_snake(name): _lowered(value) for name, value in part.items()}
    return [_lowered(item) for item in part] if isinstance(part, list) else part


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


def cut(text: str) -> str:
    """At most 2048 bytes of text, as the platforms cut it: a character may be split."""
    return text.encode()[:TEXT_LIMIT_BYTES].decode("utf-8", "replace")
