"""Official Account callbacks: URL check and POST bodies in safe, compat and plain mode, XML or JSON."""

from __future__ import annotations

from config.schema import MpAccount
from gateway import payload, xml
from gateway.channel import CallbackRejected, CallbackRequest, Opened
from gateway.envelope import Envelope, check_signature, envelope_for
from gateway.request_checks import check_content_type, encrypted_part, required, seconds


def envelope(account: MpAccount) -> Envelope:
    """The account's envelope: its receive id is the app_id. Raises CallbackRejected(invalid_aes_key) without a key."""
    key = account.encoding_aes_key.get_secret_value() if account.encoding_aes_key is not None else ""
    return envelope_for(account.callback_token, key, account.app_id)


def verify_url(account: MpAccount, request: CallbackRequest) -> bytes:
    """The echostr unchanged, after the three-part signature; so in every mode. Raises CallbackRejected.

    Source: crypto_vectors, algorithm.oa_get_verification.
    """
    signature, timestamp, nonce, echostr = required(request.query, "signature", "timestamp", "nonce", "echostr")
    seconds(timestamp)
    check_signature(signature, account.callback_token, timestamp, nonce)
    return echostr.encode("utf-8", "replace")


def open_callback(account: MpAccount, request: CallbackRequest) -> Opened:
    """Verify a POST, and decrypt it unless the settings say ``mode: plain``. Raises CallbackRejected.

    The account's mode alone decides; ``encrypt_type`` and ``openid`` in the query are never read (N-11). In compat
    mode the plain fields beside ``Encrypt`` are never read either.
    """
    check_content_type(request.content_type)
    if account.mode == "plain":
        return _open_plain(account, request)
    if "msg_signature" not in request.query and request.query.get("signature", ("",))[0]:
        raise CallbackRejected("not_encrypted", hint=f"the console is in plain mode, the account in mode {account.mode}")
    signature, timestamp, nonce = required(request.query, "msg_signature", "timestamp", "nonce")
    timestamp_s = seconds(timestamp)
    is_json = payload.looks_like_json(request.body)
    fields = payload.parse_json(request.body) if is_json else xml.parse(request.body)
    message = envelope(account).open(encrypted_part(fields), signature=signature, timestamp=timestamp, nonce=nonce)
    return Opened(payload=message, encrypted=True, is_json=is_json, timestamp_s=timestamp_s)


def _open_plain(account: MpAccount, request: CallbackRequest) -> Opened:
    signature, timestamp, nonce = required(request.query, "signature", "timestamp", "nonce")
    timestamp_s = seconds(timestamp)
    check_signature(signature, account.callback_token, timestamp, nonce)
    if len(request.body) > xml.MAX_BYTES:
        raise CallbackRejected("too_large", status=413)
    is_json = payload.looks_like_json(request.body)
    return Opened(payload=request.body, encrypted=False, is_json=is_json, timestamp_s=timestamp_s)
