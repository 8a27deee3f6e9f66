"""Every public and crafted crypto vector, positive and negative, against the envelope and both platforms' adapters."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import parse_qs

import pytest

from config.schema import MpAccount, WecomAccount
from gateway import xml
from gateway.channel import CallbackRejected, CallbackRequest
from gateway.envelope import Envelope, aes_key, check_signature, sign
from gateway.mp import crypto as mp_crypto
from gateway.payload import looks_like_json, parse_json
from gateway.request_checks import encrypted_part
from gateway.wecom import crypto as wecom_crypto
from tests.shared_data import shared_json

DATA = shared_json("protocol/crypto_vectors.json")
VECTORS: list[dict[str, Any]] = DATA["vectors"]
NO_KEY = "a" * 43


def _of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(vector, id=vector["id"]) for vector in VECTORS if vector["kind"] in kinds]


def _envelope(vector: dict[str, Any]) -> Envelope:
    return Envelope(vector.get("token", "t"), vector.get("encoding_aes_key", NO_KEY), vector.get("receive_id", ""))


def _outcome(vector: dict[str, Any], action: Any) -> bytes | None:
    """The bytes of a vector that must succeed; None after checking the code of one that must not."""
    if vector["expect"]["ok"]:
        result: bytes = action()
        return result
    with pytest.raises(CallbackRejected) as caught:
        action()
    assert caught.value.code == vector["expect"]["error"]
    assert 400 <= caught.value.status < 500
    return None


def _encrypt_of(vector: dict[str, Any]) -> str:
    if "body" not in vector:
        return str(vector["encrypt"])
    body = vector["body"].encode()
    fields = parse_json(body) if looks_like_json(body) else xml.parse(body)
    return str(fields["encrypt"]) if "encrypt" in fields else encrypted_part(fields)


def test_the_vectors_are_all_here_and_every_kind_is_tested() -> None:
    tested = {"message_decrypt", "url_verification", "url_verification_plain", "message_encrypt", "key_construction"}
    tested |= {"signature_plain", "signature_msg", "signature_raw", "media_decrypt"}
    assert len(VECTORS) == DATA["counts"]["total"]
    assert {vector["kind"] for vector in VECTORS} <= tested


@pytest.mark.parametrize("vector", _of_kind("message_decrypt"))
def test_decrypt(vector: dict[str, Any]) -> None:
    """CB-01 with the vectors' pads beyond 16."""
    encrypt = _encrypt_of(vector)
    if "encrypt" in vector:
        assert encrypt == vector["encrypt"]
    query = {"signature": vector["msg_signature"], "timestamp": vector["timestamp"], "nonce": vector["nonce"]}
    plain = _outcome(vector, lambda: _envelope(vector).open(encrypt, **query))
    if plain is not None:
        assert plain.decode() == vector["expect"]["plaintext"]


def _account(vector: dict[str, Any]) -> WecomAccount | MpAccount | None:
    """The account a vector is addressed to, where our settings allow such an id; other kinds of accounts are not ours."""
    keys = {"id": "a", "callback_token": vector["token"], "encoding_aes_key": vector["encoding_aes_key"]}
    if vector["platform"] == "wecom" and vector["receive_id"][:2] in ("ww", "wx"):
        return WecomAccount(platform="wecom", corp_id=vector["receive_id"], agent_id=1, secret="s", **keys)
    if vector["platform"].startswith("oa"):
        mode = "compat" if vector.get("mode") == "compat" else "safe"
        return MpAccount(platform="mp", app_id=vector["receive_id"], app_secret="s", mode=mode, **keys)
    return None


ADDRESSED = [param for param in _of_kind("message_decrypt") if _account(param.values[0]) and "body" in param.values[0]]


@pytest.mark.parametrize("vector", ADDRESSED)
def test_decrypt_through_the_adapters(vector: dict[str, Any]) -> None:
    """CB-10: safe and compat POSTs are verified by msg_signature; nothing but the decrypted copy comes out."""
    query = {name: (vector[name],) for name in ("msg_signature", "timestamp", "nonce")}
    if "query" in vector:
        query = {name: tuple(values) for name, values in parse_qs(vector["query"]).items()}
    request = CallbackRequest("POST", query, vector["body"].encode())
    account = _account(vector)
    if isinstance(account, WecomAccount):
        plain = _outcome(vector, lambda: wecom_crypto.open_callback(account, request).payload)
    else:
        assert account is not None
        plain = _outcome(vector, lambda: mp_crypto.open_callback(account, request).payload)
    if plain is not None:
        assert plain.decode() == vector["expect"]["plaintext"]


@pytest.mark.parametrize("vector", _of_kind("url_verification"))
def test_url_verification(vector: dict[str, Any]) -> None:
    """CB-04: the decrypted echostr, byte for byte."""
    query = {"signature": vector["msg_signature"], "timestamp": vector["timestamp"], "nonce": vector["nonce"]}
    plain = _outcome(vector, lambda: _envelope(vector).open(vector["echostr"], **query))
    if plain is not None:
        assert plain == vector["expect"]["plaintext"].encode()


@pytest.mark.parametrize("vector", _of_kind("url_verification_plain"))
def test_url_verification_of_official_accounts(vector: dict[str, Any]) -> None:
    """The echostr comes back unchanged after the three-part signature, in safe mode too."""
    query = {name: tuple(values) for name, values in parse_qs(vector["query"]).items()}
    for mode in ("safe", "compat", "plain"):
        account = MpAccount(
            id="a",
            platform="mp",
            app_id="wx" + "0" * 16,
            app_secret="s",
            callback_token=vector["token"],
            encoding_aes_key=NO_KEY,
            mode=mode,
        )
        assert mp_crypto.verify_url(account, CallbackRequest("GET", query)) == vector["expect"]["reply"].encode()


@pytest.mark.parametrize("vector", _of_kind("signature_plain", "signature_msg"))
def test_signatures(vector: dict[str, Any]) -> None:
    parts = [vector["token"], vector["timestamp"], vector["nonce"], *([vector["encrypt"]] if "encrypt" in vector else [])]
    given = vector.get("msg_signature") or vector["signature"]
    _outcome(vector, lambda: check_signature(given, *parts) or b"")


@pytest.mark.parametrize("vector", _of_kind("signature_raw"))
def test_raw_signature(vector: dict[str, Any]) -> None:
    assert sign(*vector["parts"]) == vector["signature"]


@pytest.mark.parametrize("vector", _of_kind("key_construction"))
def test_keys(vector: dict[str, Any]) -> None:
    key = _outcome(vector, lambda: aes_key(vector["encoding_aes_key"]))
    if key is not None:
        assert key.hex() == vector["expect"]["key_hex"]


@pytest.mark.parametrize("vector", _of_kind("message_encrypt"))
def test_encrypt(vector: dict[str, Any]) -> None:
    """CB-02: our records equal the platform's, with the vector's prefix in place of random bytes."""
    envelope = _envelope(vector)
    plaintext, prefix = vector["plaintext"].encode(), vector["random"].encode()
    encrypt = envelope.encrypt(plaintext, prefix=prefix)
    assert encrypt == vector["expect"]["encrypt"]
    if "msg_signature" in vector["expect"]:
        signed = sign(vector["token"], vector["timestamp"], vector["nonce"], encrypt)
        assert signed == vector["expect"]["msg_signature"]
    if "envelope" in vector["expect"]:
        expected = vector["expect"]["envelope"]
        is_json = looks_like_json(expected.encode())
        sealed = envelope.seal(
            plaintext, timestamp=int(vector["timestamp"]), nonce=vector["nonce"], is_json=is_json, prefix=prefix
        )
        read = parse_json if is_json else xml.parse
        assert _lowered(read(sealed)) == _lowered(read(expected.encode()))


def _lowered(fields: dict[str, Any]) -> dict[str, Any]:
    """AI bots spell the envelope's keys in lower case."""
    return {name.lower(): value for name, value in fields.items()}


@pytest.mark.parametrize("vector", _of_kind("media_decrypt"))
def test_media(vector: dict[str, Any]) -> None:
    plain = _envelope(vector).decrypt_bytes(base64.b64decode(vector["ciphertext_b64"]))
    assert plain == base64.b64decode(vector["expect"]["plaintext_b64"])
    assert hashlib.sha256(plain).hexdigest() == vector["expect"]["sha256"]
