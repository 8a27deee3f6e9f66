"""The platforms' side of the callback cryptography, written apart from the gateway's so that each checks the other."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

BLOCK = 32
"""Padding block in bytes: PKCS#7 to 32, so a pad byte is 1..32 (wecom.cb.pad)."""


class CryptoError(ValueError):
    """A reply cannot be verified or decrypted; the text names what is wrong."""


def sign(token: str, *parts: str) -> str:
    """SHA-1 hex over the sorted, joined token and parts."""
    return hashlib.sha1("".join(sorted([token, *parts])).encode()).hexdigest()  # noqa: S324 - the platforms' algorithm


def same(left: str, right: str) -> bool:
    """Constant-time comparison of two signatures."""
    return hmac.compare_digest(left.encode(), right.encode())


class Box:
    """AES-256-CBC with the account's key, the platforms' framing: 16 random bytes, length, message, receive id."""

    def __init__(self, encoding_aes_key: str, receive_id: str) -> None:
        self._key = base64.b64decode(encoding_aes_key + "=")
        self._receive_id = receive_id.encode()

    def encrypt(self, plaintext: bytes) -> str:
        """Base64 of the encrypted record; a new random prefix every time."""
        record = os.urandom(16) + struct.pack(">I", len(plaintext)) + plaintext + self._receive_id
        pad = BLOCK - len(record) % BLOCK
        encryptor = self._cipher().encryptor()
        return base64.b64encode(encryptor.update(record + bytes([pad]) * pad) + encryptor.finalize()).decode("ascii")

    def decrypt(self, encrypted: str) -> bytes:
        """The message inside; raises CryptoError when framing, padding or receive id is wrong."""
        try:
            blob = base64.b64decode(encrypted.strip(), validate=True)
        except ValueError:
            raise CryptoError("Encrypt is not base64") from None
        if not blob or len(blob) % 16:
            raise CryptoError("Encrypt is not whole AES blocks")
        decryptor = self._cipher().decryptor()
        record = decryptor.update(blob) + decryptor.finalize()
        pad = record[-1]
        if not 1 <= pad <= BLOCK or len(record) < pad + 20 or record[-pad:] != bytes([pad]) * pad:
            raise CryptoError("padding is wrong")
        body = record[:-pad]
        (length,) = struct.unpack(">I", body[16:20])
        message, receive_id = body[20 : 20 + length], body[20 + length :]
        if len(message) != length:
            raise CryptoError("length field is wrong")
        if receive_id != self._receive_id:
            raise CryptoError("receive id is wrong")
        return message

    def _cipher(self) -> Cipher[modes.CBC]:
        return Cipher(algorithms.AES(self._key), modes.CBC(self._key[:16]))
