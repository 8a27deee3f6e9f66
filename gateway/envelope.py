"""The encrypted envelope both platforms share: signature, AES record, receive id. No platform, no HTTP."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import secrets
import struct
from functools import lru_cache
from typing import Any

from wechatpy.crypto.base import BasePrpCrypto
from wechatpy.crypto.cryptography import WeChatCipher
from wechatpy.utils import WeChatSigner

from gateway import xml
from gateway.channel import CallbackRejected

_BLOCK = 16
_MAX_PAD = 32
_HEAD = 20
"""16 random bytes and the length of the message (4 bytes, big-endian)."""


def aes_key(encoding_aes_key: str) -> bytes:
    """The 32 key bytes of 43 letters and digits. The last character may be non-canonical base64: the platform issues such
    keys. Raises CallbackRejected(invalid_aes_key)."""
    if not re.fullmatch(r"[A-Za-z0-9]{43}", encoding_aes_key):
        raise CallbackRejected("invalid_aes_key", hint="EncodingAESKey is 43 letters and digits")
    return base64.b64decode(encoding_aes_key + "=")


def sign(*parts: str) -> str:
    """SHA-1 hex of the parts, sorted byte-wise and joined (crypto_vectors: algorithm.signature)."""
    signer = WeChatSigner()
    signer.add_data(*(part.encode("utf-8", "surrogatepass") for part in parts))
    return str(signer.signature)


def check_signature(signature: str, *parts: str) -> None:
    """Compare in constant time; any text is a legal wrong signature. Raises CallbackRejected(bad_signature)."""
    expected = sign(*parts).encode("ascii")
    if not hmac.compare_digest(expected, signature.encode("utf-8", "surrogatepass")):
        raise CallbackRejected("bad_signature", hint="the callback Token differs from the console's, or the request is forged")


class _Prefixed(BasePrpCrypto):  # type: ignore[misc]
    """wechatpy's record layout with a prefix of our own: random bytes, or fixed ones to reproduce a vector."""

    def __init__(self, key: bytes, prefix: bytes) -> None:
        super().__init__(key)
        self._prefix = prefix

    def get_random_string(self) -> bytes:
        return self._prefix


class Envelope:
    """Seals and opens for one (callback token, key, receive id). Immutable and safe to share."""

    def __init__(self, token: str, encoding_aes_key: str, receive_id: str) -> None:
        self._token = token
        self._key = aes_key(encoding_aes_key)
        self._receive_id = receive_id
        self._cipher = WeChatCipher(self._key)

    def open(self, encrypt: str, *, signature: str, timestamp: str, nonce: str) -> bytes:
        """Check the signature, then decrypt. Raises CallbackRejected with one of the envelope's codes."""
        check_signature(signature, self._token, timestamp, nonce, encrypt)
        return self.decrypt(encrypt)

    def decrypt(self, encrypt: str) -> bytes:
        """The message inside a base64 record. Raises CallbackRejected: bad_base64, bad_length, bad_padding, too_short,
        bad_msg_len, receive_id_mismatch."""
        try:
            ciphertext = base64.b64decode(encrypt.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise CallbackRejected("bad_base64") from None
        record = self.decrypt_bytes(ciphertext)
        if len(record) < _HEAD:
            raise CallbackRejected("too_short")
        (length,) = struct.unpack_from(">I", record, 16)
        end = _HEAD + length
        if end > len(record):
            raise CallbackRejected("bad_msg_len")
        if not hmac.compare_digest(record[end:], self._receive_id.encode("utf-8")):
            raise CallbackRejected("receive_id_mismatch", hint="the callback is meant for another corp_id or app_id")
        return record[_HEAD:end]

    def decrypt_bytes(self, ciphertext: bytes) -> bytes:
        """Bare AES-256-CBC with strict padding (1 to 32, all equal). Raises CallbackRejected: bad_length, bad_padding."""
        if not ciphertext or len(ciphertext) % _BLOCK:
            raise CallbackRejected("bad_length")
        padded: bytes = self._cipher.decrypt(ciphertext)
        pad = padded[-1]
        if not 1 <= pad <= min(_MAX_PAD, len(padded)) or padded[-pad:] != bytes((pad,)) * pad:
            raise CallbackRejected("bad_padding", hint="the EncodingAESKey differs from the console's")
        return padded[:-pad]

    def encrypt(self, message: bytes, *, prefix: bytes | None = None) -> str:
        """The base64 record of a message, always padded. ``prefix`` (16 bytes) is random unless a vector is reproduced."""
        crypto = _Prefixed(self._key, secrets.token_bytes(16) if prefix is None else prefix)
        return str(crypto._encrypt(message, self._receive_id).decode("ascii"))

    def seal(self, message: bytes, *, timestamp: int, nonce: str, is_json: bool, prefix: bytes | None = None) -> bytes:
        """The signed reply envelope, as XML or JSON (crypto_vectors: oa-safe-json-reply-official)."""
        encrypt = self.encrypt(message, prefix=prefix)
        fields: dict[str, Any] = {
            "Encrypt": encrypt,
            "MsgSignature": sign(self._token, str(timestamp), nonce, encrypt),
            "TimeStamp": timestamp,
            "Nonce": nonce,
        }
        return json.dumps(fields).encode("ascii") if is_json else xml.build(fields)


@lru_cache(maxsize=256)
def envelope_for(token: str, encoding_aes_key: str, receive_id: str) -> Envelope:
    """The shared envelope of an account; a rotated key makes a new one."""
    return Envelope(token, encoding_aes_key, receive_id)
