"""WeCom callbacks: URL check and POST bodies, verified and decrypted (always encrypted, always XML)."""

from __future__ import annotations

from config.schema import WecomAccount
from gateway import xml
from gateway.channel import CallbackRequest, Opened
from gateway.envelope import Envelope, envelope_for
from gateway.payload import looks_like_json
from gateway.request_checks import check_content_type, encrypted_part, required, seconds

_JSON_HINT = "WeCom apps get XML; JSON comes from an AI bot (智能机器人), whose callback URL is not this one"


def envelope(account: WecomAccount) -> Envelope:
    """The account's envelope: its receive id is the corp_id."""
    return envelope_for(account.callback_token, account.encoding_aes_key.get_secret_value(), account.corp_id)


def verify_url(account: WecomAccount, request: CallbackRequest) -> bytes:
    """The decrypted echostr: exactly these bytes are the answer. Raises CallbackRejected.

    A query that was form-decoded on the way has spaces where base64 has plus signs; they are put back (query_strings:
    q-wecom-get-raw-plus).
    """
    signature, timestamp, nonce, echostr = required(request.query, "msg_signature", "timestamp", "nonce", "echostr")
    seconds(timestamp)
    return envelope(account).open(echostr.replace(" ", "+"), signature=signature, timestamp=timestamp, nonce=nonce)


def open_callback(account: WecomAccount, request: CallbackRequest) -> Opened:
    """Verify and decrypt a POST. Raises CallbackRejected; JSON is refused before any work."""
    signature, timestamp, nonce = required(request.query, "msg_signature", "timestamp", "nonce")
    timestamp_s = seconds(timestamp)
    check_content_type("application/json" if looks_like_json(request.body) else request.content_type, json_hint=_JSON_HINT)
    encrypt = encrypted_part(xml.parse(request.body))
    payload = envelope(account).open(encrypt, signature=signature, timestamp=timestamp, nonce=nonce)
    return Opened(payload=payload, encrypted=True, is_json=False, timestamp_s=timestamp_s)
