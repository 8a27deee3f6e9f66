"""The query strings of the platform data, raw as they arrive, through decoding and the adapters."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest

from gateway.channel import CallbackRejected, CallbackRequest
from gateway.mp import crypto as mp_crypto
from gateway.payload import parse_json
from gateway.wecom import crypto as wecom_crypto
from tests.fakes.reference_crypto import mp_account, wecom_account
from tests.shared_data import shared_json

QUERIES = {record["id"]: record["raw"] for record in shared_json("protocol/inbound_messages.json")["query_strings"]}
VECTORS = {vector["id"]: vector for vector in shared_json("protocol/crypto_vectors.json")["vectors"]}


def _request(query_id: str, body: bytes = b"", method: str = "POST") -> CallbackRequest:
    parsed = parse_qs(QUERIES[query_id], keep_blank_values=True)
    return CallbackRequest(method, {name: tuple(values) for name, values in parsed.items()}, body)


def _keys(vector: dict[str, Any]) -> dict[str, str]:
    return {"callback_token": vector["token"], "encoding_aes_key": vector["encoding_aes_key"]}


def test_every_query_string_is_used_here() -> None:
    used = {
        "q-wecom-get",
        "q-wecom-get-raw-plus",
        "q-oa-post-safe",
        "q-oa-post-raw-encrypt-type",
        "q-missing",
        "q-duplicate",
        "q-head",
    }
    assert set(QUERIES) == used


@pytest.mark.parametrize("query_id", ["q-wecom-get", "q-wecom-get-raw-plus"])
def test_url_checks_with_and_without_encoded_plus(query_id: str) -> None:
    """CB-04: decoded once, spaces taken back to plus signs, answered byte for byte."""
    vector = VECTORS["wecom-url-official"]
    account = wecom_account(corp_id=vector["receive_id"], **_keys(vector))
    assert wecom_crypto.verify_url(account, _request(query_id, method="GET")) == vector["expect"]["plaintext"].encode()


def test_the_openid_of_the_query_names_nobody() -> None:
    """CB-10: a safe POST in JSON, verified by msg_signature; the query's openid is not in what comes out."""
    vector = VECTORS["neg-oa-wrong-appid"]  # the official JSON sample; its reply's vector names the right app_id
    account = mp_account(app_id=VECTORS["oa-safe-json-reply-official"]["receive_id"], **_keys(vector))
    opened = mp_crypto.open_callback(account, _request("q-oa-post-safe", vector["body"].encode()))
    assert opened.is_json
    assert parse_json(opened.payload)["Event"] == "debug_demo"
    assert _request("q-oa-post-safe").query["openid"][0].encode() not in opened.payload


@pytest.mark.parametrize(
    ("query_id", "code"),
    [
        ("q-oa-post-raw-encrypt-type", "not_encrypted"),
        ("q-missing", "missing_parameter"),
        ("q-duplicate", "repeated_parameter"),
        ("q-head", "missing_parameter"),
    ],
)
def test_queries_that_are_refused_unread(query_id: str, code: str) -> None:
    """N-11 for encrypt_type=raw on an account in safe mode."""
    with pytest.raises(CallbackRejected) as caught:
        mp_crypto.open_callback(mp_account(), _request(query_id, b"<xml/>"))
    assert caught.value.code == code
    assert 400 <= caught.value.status < 500
