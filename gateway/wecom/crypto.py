"""WeCom callbacks: URL check and POST bodies, verified and decrypted (always encrypted, always XML)."""

from __future__ import annotations

from config.schema import WecomAccount
from gateway import xml
from gateway.channel import CallbackRejected, CallbackRequest, Opened
from gateway.envelope import Envelope, encrypted_part, envelope_for, required, seconds


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
    if "json" in request.content_type.lower() or request.body.lstrip()[:1] == b"{":
        raise CallbackRejected("bad_content_type", status=415, hint="WeCom apps get XML; JSON is for AI bots, not this account")
    encrypt = encrypted_part(xml.parse(request.body))
    payload = envelope(account).open(encrypt, signature=signature, timestamp=timestamp, nonce=nonce)
    return Opened(payload=payload, encrypted=True, is_json=False, timestamp_s=timestamp_s)
