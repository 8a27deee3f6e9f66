"""Opening callbacks: what is checked, in which order, and that nothing a client sends is an untyped error."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channel import CallbackRejected, CallbackRequest
from gateway.envelope import Envelope
from gateway.mp import crypto as mp_crypto
from gateway.wecom import crypto as wecom_crypto
from tests.fakes import reference_crypto as platform
from tests.fakes.reference_crypto import APP_ID, CORP_ID, KEY, NOW_S, TOKEN, mp_account, wecom_account

WECOM = wecom_account()
MP = mp_account()
TEXT = "<xml><MsgType>text</MsgType><Content>你好</Content></xml>".encode()


def _refused(action: object, *arguments: object) -> CallbackRejected:
    with pytest.raises(CallbackRejected) as caught:
        action(*arguments)  # type: ignore[operator]
    assert 400 <= caught.value.status < 500
    return caught.value


@given(st.binary(max_size=64), st.sampled_from([CORP_ID, "wx5823bf96d3bd56c7", ""]))
def test_every_pad_from_1_to_32_is_accepted(message: bytes, receive_id: str) -> None:
    """CB-01: messages of 0 to 64 bytes take the record over every pad length, in both directions."""
    envelope = Envelope(TOKEN, KEY, receive_id)
    assert envelope.decrypt(platform.encrypt(message, receive_id)) == message
    read, to, pad = platform.decrypt(envelope.encrypt(message))
    assert (read, to) == (message, receive_id)
    assert 1 <= pad <= 32


@pytest.mark.parametrize("length", range(65))
def test_pad_lengths_one_by_one(length: int) -> None:
    """CB-01, CB-02: a record that ends on a block gets a whole block of padding."""
    message = b"m" * length
    _, _, pad = platform.decrypt(Envelope(TOKEN, KEY, CORP_ID).encrypt(message))
    record = 20 + length + len(CORP_ID)
    assert pad == 32 - record % 32
    assert (pad == 32) == (record % 32 == 0)
    assert Envelope(TOKEN, KEY, CORP_ID).decrypt(platform.encrypt(message, CORP_ID)) == message


def test_prefixes_are_random_bytes() -> None:
    envelope = Envelope(TOKEN, KEY, CORP_ID)
    assert len({envelope.encrypt(b"same") for _ in range(20)}) == 20


@given(st.binary(max_size=200))
def test_any_bytes_for_a_record_are_a_typed_refusal(junk: bytes) -> None:
    encrypted = platform.encrypt_record(junk + b"\0" * (-len(junk) % 16)) if junk else ""
    error = _refused(Envelope(TOKEN, KEY, CORP_ID).decrypt, encrypted)
    assert error.code in ("bad_length", "bad_padding", "too_short", "bad_msg_len", "receive_id_mismatch")


@pytest.mark.parametrize(
    ("encrypted", "code"),
    [
        ("not base64!", "bad_base64"),
        ("AAAA BBBB", "bad_base64"),
        ("中文", "bad_base64"),
        ("AAA", "bad_base64"),
        ("", "bad_length"),
        ("AAAA", "bad_length"),
        (platform.encrypt_record(b"\x20" * 32), "too_short"),
        (platform.encrypt_record(b"x" * 13 + b"\x13" * 19), "too_short"),
        (platform.encrypt_record(b"x" * 16 + b"\xff\xff\xff\xff" + b"\x0c" * 12), "bad_msg_len"),
        (platform.encrypt_record(b"x" * 15 + b"\x11"), "bad_padding"),
        (platform.encrypt_record(b"x" * 31 + b"\x21"), "bad_padding"),
    ],
)
def test_records_that_are_no_records(encrypted: str, code: str) -> None:
    assert _refused(Envelope(TOKEN, KEY, CORP_ID).decrypt, encrypted).code == code


@pytest.mark.parametrize("name", ["msg_signature", "timestamp", "nonce"])
@pytest.mark.parametrize(
    ("values", "code"), [((), "missing_parameter"), (("",), "missing_parameter"), (("a", "b"), "repeated_parameter")]
)
def test_query_fields_are_present_filled_and_single(name: str, values: tuple[str, ...], code: str) -> None:
    """q-missing, q-duplicate: refused with 400 before the body is looked at."""
    good = platform.post(TEXT, CORP_ID)
    request = CallbackRequest("POST", {**good.query, name: values}, b"<not xml", "text/xml")
    for action, account in ((wecom_crypto.open_callback, WECOM), (mp_crypto.open_callback, MP)):
        error = _refused(action, account, request)
        assert (error.code, error.status) == (code, 400)


def test_no_query_at_all_is_a_quick_refusal() -> None:
    """q-head, CB-07: a health checker's GET gets a defined 4xx."""
    for verify, account in ((wecom_crypto.verify_url, WECOM), (mp_crypto.verify_url, MP)):
        assert _refused(verify, account, CallbackRequest("GET", {})).code == "missing_parameter"


def test_a_wrong_signature_is_403() -> None:
    """CB-07: every branch has its status."""
    request = platform.signed("AAAA", b"<xml><Encrypt>AAAA</Encrypt></xml>", msg_signature="0" * 40)
    for action, account in ((wecom_crypto.open_callback, WECOM), (mp_crypto.open_callback, MP)):
        error = _refused(action, account, request)
        assert (error.code, error.status) == ("bad_signature", 403)


@pytest.mark.parametrize("timestamp", ["", "x", "-1", "1.5", "１２３", "9" * 16, " 1"])
def test_timestamps_are_numbers(timestamp: str) -> None:
    encrypted = platform.encrypt(TEXT, CORP_ID)
    request = platform.signed(encrypted, b"", timestamp=timestamp, echostr=encrypted, signature="x")
    for action in (wecom_crypto.open_callback, wecom_crypto.verify_url):
        assert _refused(action, WECOM, request).code == "missing_parameter"
    for action in (mp_crypto.open_callback, mp_crypto.verify_url):
        assert _refused(action, MP, request).code == "missing_parameter"


@given(st.text(max_size=60))
def test_any_text_is_a_legal_wrong_signature(signature: str) -> None:
    query = {"msg_signature": (signature or "x",), "timestamp": ("1",), "nonce": (signature or "\ud800",)}
    error = _refused(wecom_crypto.open_callback, WECOM, CallbackRequest("POST", query, b"<xml><Encrypt>AA</Encrypt></xml>"))
    assert error.code == "bad_signature"


def test_wecom_opens_its_own_callbacks() -> None:
    opened = wecom_crypto.open_callback(WECOM, platform.post(TEXT, CORP_ID))
    assert (opened.payload, opened.encrypted, opened.is_json, opened.timestamp_s) == (TEXT, True, False, NOW_S)


def test_layout_around_encrypt_is_not_signed() -> None:
    """wecom-envelope-whitespace-encrypt: white space around Encrypt is dropped before the signature is checked."""
    request = platform.post(
        TEXT, CORP_ID, envelope="<xml><Encrypt>\n    <![CDATA[%s]]>\n </Encrypt><AgentID><![CDATA[]]></AgentID></xml>"
    )
    assert wecom_crypto.open_callback(WECOM, request).payload == TEXT


def test_json_on_a_wecom_path_is_refused_cheaply() -> None:
    for request in (
        platform.post(TEXT, CORP_ID, is_json=True),
        CallbackRequest("POST", platform.post(TEXT, CORP_ID).query, b' {"encrypt": 1}', "text/xml"),
        CallbackRequest("POST", platform.post(TEXT, CORP_ID).query, b"<xml/>", "application/json; charset=utf-8"),
    ):
        error = _refused(wecom_crypto.open_callback, WECOM, request)
        assert (error.code, error.status) == ("bad_content_type", 415)
        assert error.hint


@pytest.mark.parametrize("content_type", ["image/png", "multipart/form-data; boundary=x", "text/html", "application/pdf", "x"])
def test_other_content_types_are_refused_unread(content_type: str) -> None:
    for action, account, receive_id in ((wecom_crypto.open_callback, WECOM, CORP_ID), (mp_crypto.open_callback, MP, APP_ID)):
        request = CallbackRequest("POST", platform.post(TEXT, receive_id).query, b"<", content_type)
        error = _refused(action, account, request)
        assert (error.code, error.status) == ("bad_content_type", 415)


@pytest.mark.parametrize(
    "content_type", ["", "text/xml", "application/xml; charset=utf-8", "Text/XML", "application/octet-stream"]
)
def test_what_proxies_call_xml_is_taken(content_type: str) -> None:
    for action, account, receive_id in ((wecom_crypto.open_callback, WECOM, CORP_ID), (mp_crypto.open_callback, MP, APP_ID)):
        good = platform.post(TEXT, receive_id)
        assert action(account, CallbackRequest("POST", good.query, good.body, content_type)).payload == TEXT  # type: ignore[arg-type]


def test_official_accounts_take_json_in_kind() -> None:
    payload = b'{"MsgType": "text"}'
    opened = mp_crypto.open_callback(MP, platform.post(payload, APP_ID, is_json=True))
    assert (opened.payload, opened.encrypted, opened.is_json) == (payload, True, True)


@pytest.mark.parametrize("mode", ["safe", "compat"])
def test_settings_choose_the_mode(mode: str) -> None:
    """N-11: an unencrypted body is refused in safe and compat mode whatever the query says."""
    account = mp_account(mode=mode)
    plain = platform.plain_post(TEXT)
    query = {**plain.query, "encrypt_type": ("raw",)}
    assert _refused(mp_crypto.open_callback, account, CallbackRequest("POST", query, TEXT)).code == "not_encrypted"
    signed = platform.signed("", TEXT, encrypt_type="raw", signature=plain.query["signature"][0])
    assert _refused(mp_crypto.open_callback, account, signed).code == "not_encrypted"


@pytest.mark.parametrize("mode", ["safe", "compat"])
def test_only_the_decrypted_copy_is_used(mode: str) -> None:
    """CB-10, oa-envelope-compat-forged: forged plain fields beside Encrypt, and the openid in the query, change nothing."""
    form = "<xml><FromUserName>oADMIN</FromUserName><Content>rm -rf</Content><Encrypt>%s</Encrypt></xml>"
    request = platform.post(TEXT, APP_ID, envelope=form)
    query = {**request.query, "openid": ("oADMIN",), "encrypt_type": ("aes",), "signature": ("bad",)}
    assert mp_crypto.open_callback(mp_account(mode=mode), CallbackRequest("POST", query, request.body)).payload == TEXT


def test_signature_and_msg_signature_are_not_interchangeable() -> None:
    """CB-10: the good signature under the other name is refused."""
    good = platform.post(TEXT, APP_ID)
    swapped = {**good.query, "signature": good.query["msg_signature"], "msg_signature": ("bad",), "encrypt_type": ("aes",)}
    error = _refused(mp_crypto.open_callback, MP, CallbackRequest("POST", swapped, good.body))
    assert (error.code, error.status) == ("bad_signature", 403)


def test_plain_mode_is_explicit() -> None:
    """N-11: only ``mode: plain`` reads a plain body; its three-part signature is checked."""
    account = mp_account(mode="plain", encoding_aes_key=None)
    opened = mp_crypto.open_callback(account, platform.plain_post(TEXT))
    assert (opened.payload, opened.encrypted, opened.is_json) == (TEXT, False, False)
    forged = CallbackRequest("POST", {**platform.plain_post(TEXT).query, "signature": ("0" * 40,)}, TEXT)
    assert _refused(mp_crypto.open_callback, account, forged).code == "bad_signature"


@pytest.mark.parametrize(
    "body", [b"", b"<xml", b"<xml/>", b"<xml><Encrypt><a/></Encrypt></xml>", b"{}", b"[]", b"{", b"\xff\xfe"]
)
def test_bodies_without_an_envelope(body: bytes) -> None:
    query = platform.post(TEXT, CORP_ID).query
    for action, account in ((wecom_crypto.open_callback, WECOM), (mp_crypto.open_callback, MP)):
        error = _refused(action, account, CallbackRequest("POST", query, body))
        assert error.code in ("bad_xml", "bad_json", "not_encrypted", "bad_content_type")


def test_bodies_beyond_the_cap() -> None:
    query = platform.post(TEXT, CORP_ID).query
    body = b"<xml><Encrypt>" + b"A" * 300_000 + b"</Encrypt></xml>"
    for action, account in ((wecom_crypto.open_callback, WECOM), (mp_crypto.open_callback, MP)):
        error = _refused(action, account, CallbackRequest("POST", query, body))
        assert (error.code, error.status) == ("too_large", 413)


def _get(echostr: str, receive_id: str = CORP_ID, **changes: str) -> str:
    """The raw query string of WeCom's URL check."""
    encrypted = platform.encrypt(echostr.encode(), receive_id)
    signature = changes.get("signature") or platform.signature(TOKEN, str(NOW_S), "n", encrypted)
    return f"msg_signature={signature}&timestamp={NOW_S}&nonce=n&echostr={encrypted}"


def _echostr_with_plus() -> str:
    """An echostr whose record has a plus sign in base64."""
    return next(text for text in map(str, range(1000)) if "+" in platform.encrypt(text.encode(), CORP_ID))


def test_echostr_is_answered_byte_for_byte() -> None:
    """CB-04: no quotes, no byte order mark, no newline."""
    raw = _get("1616140317555161061").replace("+", "%2B")
    query = {name: tuple(values) for name, values in parse_qs(raw).items()}
    assert wecom_crypto.verify_url(WECOM, CallbackRequest("GET", query)) == b"1616140317555161061"


def test_plus_signs_that_became_spaces_are_put_back() -> None:
    """q-wecom-get-raw-plus: a proxy decoded the query, form-decoding made spaces; the envelope itself stays strict."""
    echostr = _echostr_with_plus()
    query = {name: tuple(values) for name, values in parse_qs(_get(echostr)).items()}
    assert " " in query["echostr"][0]
    assert wecom_crypto.verify_url(WECOM, CallbackRequest("GET", query)) == echostr.encode()
    signed = {"signature": query["msg_signature"][0], "timestamp": str(NOW_S), "nonce": "n"}
    with pytest.raises(CallbackRejected, match="bad_signature"):
        Envelope(TOKEN, KEY, CORP_ID).open(query["echostr"][0], **signed)
    undecoded = {name: (unquote(value),) for name, value in (pair.split("=", 1) for pair in _get(echostr).split("&"))}
    assert wecom_crypto.verify_url(WECOM, CallbackRequest("GET", undecoded)) == echostr.encode()


def test_url_checks_of_another_company_are_refused() -> None:
    query = {name: tuple(values) for name, values in parse_qs(_get("1", "ww" + "f" * 16).replace("+", "%2B")).items()}
    assert _refused(wecom_crypto.verify_url, WECOM, CallbackRequest("GET", query)).code == "receive_id_mismatch"
