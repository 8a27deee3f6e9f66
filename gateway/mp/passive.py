"""Official Account passive replies: the answer to a callback in the HTTP response, encrypted and in JSON when it was."""

from __future__ import annotations

import json
import secrets
from typing import Any

from agent.protocol import InboundMessage
from config.schema import MpAccount
from gateway import passive_forms as forms
from gateway import xml
from gateway.channel import Opened, Part
from gateway.mp.crypto import envelope
from gateway.payload import child, text_of

XML_TYPE = "text/xml; charset=utf-8"
JSON_TYPE = "application/json; charset=utf-8"
ACK = b"success"
ACK_TYPE = "text/plain; charset=utf-8"


def can_passive(part: Part) -> bool:
    """Whether this part has a passive form. News has one with a single article only (limits: passive news reply)."""
    if forms.kind_of(part) == "news" and len(forms.articles(part)) != 1:
        return False
    return _body(part) is not None


def seal(account: MpAccount, part: Part, message: InboundMessage, opened: Opened, *, now_ms: int) -> tuple[bytes, str]:
    """The reply's body and content type: encrypted exactly when the callback was, JSON exactly when it was.

    A part without a passive form, or without content, is ``success``: an empty Content is never sent.
    """
    body = _body(part)
    if body is None:
        return ACK, ACK_TYPE
    tree = {**forms.header(message, opened, from_name=account.original_id or "", now_ms=now_ms), **body}
    document = json.dumps(_for_json(tree), ensure_ascii=False).encode("utf-8", "replace") if opened.is_json else xml.build(tree)
    content_type = JSON_TYPE if opened.is_json else XML_TYPE
    if not opened.encrypted:
        return document, content_type
    nonce = str(secrets.randbelow(10**10))
    sealed = envelope(account).seal(document, timestamp=now_ms // 1000, nonce=nonce, is_json=opened.is_json)
    return sealed, content_type


def _body(part: Part) -> dict[str, Any] | None:
    kind = forms.kind_of(part)
    if kind == "text":
        return forms.text(part)
    if kind in ("image", "voice", "video"):
        return forms.media(part, kind)
    if kind == "news":
        return forms.news(part)
    if kind == "music":
        return forms.music(part)
    if kind == "transfer_customer_service":
        return _transfer(part)
    return None


def _transfer(part: Part) -> dict[str, Any]:
    """Hand over to a human of the account's customer service, or to a named one (reply-oa-transfer-customer-service)."""
    tree: dict[str, Any] = {"MsgType": "transfer_customer_service"}
    kf_account = text_of(child(part.payload, "transfer_customer_service"), "kf_account") or text_of(part.payload, "kf_account")
    if kf_account:
        tree["TransInfo"] = {"KfAccount": kf_account}
    return tree


def _for_json(tree: dict[str, Any]) -> dict[str, Any]:
    """JSON has arrays of its own: articles need no ``item`` in between."""
    if "Articles" not in tree:
        return tree
    return {**tree, "Articles": tree["Articles"]["item"]}
