"""The platform's side of the callback envelope, written from the description with hashlib and cryptography only."""

from __future__ import annotations

import base64
import hashlib
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from config.schema import MpAccount, WecomAccount
from gateway.channel import CallbackRequest

TOKEN = "t0kenForTests"
KEY = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
CORP_ID = "ww0123456789abcdef"
APP_ID = "wx0123456789abcdef"
NOW_S = 1_700_000_000


def wecom_account(**changes: object) -> WecomAccount:
    """A self-built app with the test token and key."""
    values = {"id": "wecom-main", "platform": "wecom", "corp_id": CORP_ID, "agent_id": 1000002, "secret": "not-a-secret"}
    return WecomAccount.model_validate({**values, "callback_token": TOKEN, "encoding_aes_key": KEY, **changes})


def mp_account(**changes: object) -> MpAccount:
    """An Official Account in safe mode with the test token and key."""
    values = {"id": "mp-main", "platform": "mp", "app_id": APP_ID, "app_secret": "not-a-secret"}
    return MpAccount.model_validate({**values, "callback_token": TOKEN, "encoding_aes_key": KEY, **changes})


def signature(*parts: str) -> str:
    """SHA-1 of the sorted, joined parts."""
    return hashlib.sha1("".join(sorted(parts)).encode(), usedforsecurity=False).hexdigest()


def encrypt_record(record: bytes, key: str = KEY) -> str:
    """AES-256-CBC of bytes that are already padded."""
    raw = base64.b64decode(key + "=")
    encryptor = Cipher(algorithms.AES(raw), modes.CBC(raw[:16])).encryptor()
    return base64.b64encode(encryptor.update(record) + encryptor.finalize()).decode()


def encrypt(message: bytes, receive_id: str, key: str = KEY, prefix: bytes = b"0123456789abcdef") -> str:
    """The record of a message: prefix, length, message, receive id, padded to 32."""
    record = prefix + struct.pack(">I", len(message)) + message + receive_id.encode()
    pad = 32 - len(record) % 32
    return encrypt_record(record + bytes([pad]) * pad, key)


def decrypt(encrypted: str, key: str = KEY) -> tuple[bytes, str, int]:
    """Message, receive id and pad of a record."""
    raw = base64.b64decode(key + "=")
    decryptor = Cipher(algorithms.AES(raw), modes.CBC(raw[:16])).decryptor()
    padded = decryptor.update(base64.b64decode(encrypted)) + decryptor.finalize()
    pad = padded[-1]
    record = padded[:-pad]
    length = struct.unpack(">I", record[16:20])[0]
    return record[20 : 20 + length], record[20 + length :].decode(), pad


def post(payload: bytes, receive_id: str, *, is_json: bool = False, envelope: str | None = None) -> CallbackRequest:
    """A signed, encrypted POST as the platform sends it; ``envelope`` (with ``%s`` for Encrypt) replaces the body's form."""
    encrypted = encrypt(payload, receive_id)
    form = envelope or ('{"ToUserName": "x", "Encrypt": "%s"}' if is_json else "<xml><Encrypt><![CDATA[%s]]></Encrypt></xml>")
    return signed(encrypted, (form % encrypted).encode(), content_type="application/json" if is_json else "text/xml")


def signed(encrypted: str, body: bytes, *, content_type: str = "text/xml", **query: str) -> CallbackRequest:
    """A POST whose msg_signature covers ``encrypted``; further query fields as given."""
    fields = {"timestamp": str(NOW_S), "nonce": "n0nce", **query}
    fields.setdefault("msg_signature", signature(TOKEN, fields["timestamp"], fields["nonce"], encrypted))
    return CallbackRequest("POST", {name: (value,) for name, value in fields.items()}, body, content_type)


def plain_post(body: bytes, content_type: str = "text/xml") -> CallbackRequest:
    """A plain-mode POST with the three-part signature."""
    query = {"timestamp": str(NOW_S), "nonce": "n0nce", "signature": signature(TOKEN, str(NOW_S), "n0nce")}
    return CallbackRequest("POST", {name: (value,) for name, value in query.items()}, body, content_type)
