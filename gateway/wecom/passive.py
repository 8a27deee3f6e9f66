"""WeCom's passive replies: the encrypted answer to a callback, in the HTTP response (document/path/90241)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from agent.protocol import InboundMessage
from config.schema import WecomAccount
from gateway import passive_forms as forms
from gateway import xml
from gateway.channel import Opened, Part
from gateway.payload import child, text_of
from gateway.wecom.crypto import envelope

CONTENT_TYPE = "text/xml; charset=utf-8"
ACK = b""
ACK_TYPE = "text/plain; charset=utf-8"
_SPELLED = {"appid": "AppId", "pagepath": "PagePath", "userid": "UserId", "keyname": "KeyName"}


def can_passive(part: Part) -> bool:
    """Whether this part has a passive form (text, image, voice, video, news, an update of the clicked card)."""
    return _body(part) is not None


def seal(account: WecomAccount, part: Part, message: InboundMessage, opened: Opened, *, now_ms: int) -> tuple[bytes, str]:
    """The reply's body and content type, encrypted with a fresh nonce. A part without a passive form, or without
    content, is the bare acknowledgement: an empty Content is never sent."""
    body = _body(part)
    if body is None:
        return ACK, ACK_TYPE
    tree = {**forms.header(message, opened, from_name=account.corp_id, now_ms=now_ms), **body}
    document = xml.build(tree)
    if not opened.encrypted:  # a self-built app's callbacks always are
        return document, CONTENT_TYPE
    nonce = str(secrets.randbelow(10**10))
    return envelope(account).seal(document, timestamp=now_ms // 1000, nonce=nonce, is_json=False), CONTENT_TYPE


def _body(part: Part) -> dict[str, Any] | None:
    kind = forms.kind_of(part)
    if kind == "text":
        return forms.text(part)
    if kind in ("image", "voice", "video"):
        return forms.media(part, kind)
    if kind == "news":
        return forms.news(part)
    if kind in ("card_update", "update_button", "update_template_card"):
        return _card_update(part)
    return None


def _card_update(part: Part) -> dict[str, Any] | None:
    """The answer to a click: a new text on the button, or the whole card (reply-wecom-update-button, -template-card)."""
    name = text_of(child(part.payload, "button"), "replace_name")
    if name:
        return {"MsgType": "update_button", "Button": {"ReplaceName": name}}
    card = child(part.payload, "template_card")
    if not card:
        return None
    return {"MsgType": "update_template_card", "TemplateCard": _camel(card)}


def _camel(value: Any) -> Any:
    """The card's JSON in the XML spelling: ``horizontal_content_list`` → repeated ``HorizontalContentList``."""
    if isinstance(value, Mapping):
        return {_name(key): _camel(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_camel(item) for item in value]
    return value


def _name(key: str) -> str:
    return _SPELLED.get(key) or "".join(word.capitalize() for word in key.split("_"))
