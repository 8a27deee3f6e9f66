"""Safe XML: what is kept, what is refused, and that what we build reads back as written."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import xml
from gateway.channel import CallbackRejected
from gateway.payload import parse_json


def test_text_is_kept_and_layout_is_not() -> None:
    body = b"\xef\xbb\xbf<?xml version='1.0'?>\n<xml a='1'>\n <A>  x\n</A><!-- c --><?pi x?><B/>\n<C><D>1</D><D>2</D></C></xml>\n"
    assert xml.parse(body) == {"A": "  x\n", "B": "", "C": {"D": ["1", "2"]}}


def test_three_of_a_kind_stay_in_order() -> None:
    assert xml.parse(b"<x><a>1</a><b>-</b><a/><a><c>3</c></a></x>") == {"a": ["1", "", {"c": "3"}], "b": "-"}


def test_an_empty_root_has_no_fields() -> None:
    assert xml.parse(b"<xml/>") == xml.parse(b"<xml> \n </xml>") == {}


@pytest.mark.parametrize(
    "body",
    [
        b"<xml>text</xml>",
        b"",
        b"   ",
        b"<xml>&nbsp;</xml>",
        b"<xml><a>&a;</a></xml>",
        b"<!DOCTYPE xml><xml/>",
        b"<?xml version='1.0'?><!DOCTYPE xml [<!ENTITY a 'b'>]><xml/>",
        "<!DOCTYPE xml><xml/>".encode("utf-16"),
        "<xml><a>é</a></xml>".encode("latin-1"),
        b"<xml><a>\xed\xa0\x80</a></xml>",
        b"<xml>" + b"<a>" * 20_000 + b"</a>" * 20_000 + b"</xml>",
        b"<xml>" + b"<a/>" * 20_000 + b"</xml>",
        b"<xml/><xml/>",
        b"<xml><a></xml>",
        b"<xml><a>\x00</a></xml>",
        b"<xml><\x08a>1</\x08a></xml>",
    ],
    ids=range(16),
)
def test_refused_documents(body: bytes) -> None:
    with pytest.raises(CallbackRejected) as caught:
        xml.parse(body)
    assert caught.value.code == "bad_xml"


def test_what_a_person_pasted_does_not_lose_the_message() -> None:
    """The platforms pass control characters on unescaped, which no XML parser takes; the message is read all the same."""
    pasted = "".join(chr(code) for code in range(1, 32)) + "\ufffe\uffff好\ufffd😀\x7f"
    body = f"<xml><Content><![CDATA[{pasted}]]></Content></xml>".encode()
    forbidden = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
    assert xml.parse(body) == {"Content": forbidden.sub("\ufffd", pasted).replace("\r", "\n")}


def test_a_doctype_inside_text_is_only_text() -> None:
    assert xml.parse(b"<xml><Content><![CDATA[<!DOCTYPE html> <!ENTITY a>]]></Content></xml>") == {
        "Content": "<!DOCTYPE html> <!ENTITY a>"
    }


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_are_refused(body: bytes) -> None:
    for reader in (xml.parse, parse_json):
        try:
            outcome = type(reader(body)).__name__
        except CallbackRejected as error:
            outcome = error.code
        assert outcome in ("dict", "bad_xml", "bad_json")


LEGAL = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r"))


@given(LEGAL)
def test_text_reads_back_as_written(text: str) -> None:
    """CB-17: ``]]>`` anywhere in the text survives, read by our parser and by the standard library's."""
    document = xml.build({"Content": text, "CreateTime": 1})
    legal = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", text)
    assert xml.parse(document) == {"Content": legal, "CreateTime": "1"}
    assert (ElementTree.fromstring(document).findtext("Content") or "") == legal  # noqa: S314 - we wrote it


@pytest.mark.parametrize("text", ["a[b[0]]>1", "]]>", "]]]]>>", "]]]]><![CDATA[>", "<![CDATA[", "a]]"])
def test_cdata_ends_are_split(text: str) -> None:
    """CB-17."""
    assert xml.parse(xml.build({"Content": text})) == {"Content": text}


def test_nested_documents() -> None:
    tree = {"Articles": {"item": [{"Title": "a"}, {"Title": "b"}]}, "Done": True, "Ratio": 2.25}
    assert xml.build(tree) == (
        b"<xml><Articles><item><Title><![CDATA[a]]></Title></item><item><Title><![CDATA[b]]></Title></item></Articles>"
        b"<Done>1</Done><Ratio>2.25</Ratio></xml>"
    )


def test_json_numbers_stay_exact() -> None:
    assert parse_json(b'{"MsgId": 23457812345678901234567, "Float": 1.5}') == {"MsgId": 23457812345678901234567, "Float": 1.5}


def test_what_no_database_takes_is_replaced() -> None:
    read = parse_json(rb'{"a": "x\u0000y\ud800", "b": ["\udfff"], "c": "\ud83d\ude00 \\u0000"}')
    assert read == {"a": "x\ufffdy\ufffd", "b": ["\ufffd"], "c": "😀 \\u0000"}


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"[]",
            b"1",
            b'"x"',
            b"null",
            b"{",
            b'{"a": NaN}',
            b'{"a": Infinity}',
            b'{"a": 1e999}',
            b'{"a": 1} x',
            b'{"a": "\xff"}',
        ),
        *(
            b'{"a":' * 40 + b"1" + b"}" * 40,
            b"[" * 100_000,
            b'{"a": ' + b"9" * 5000 + b"}",
            b'{"a": [' + b"{}," * 10_000 + b"{}]}",
        ),
    ],
    ids=range(14),
)
def test_refused_json(body: bytes) -> None:
    with pytest.raises(CallbackRejected) as caught:
        parse_json(body)
    assert caught.value.code == "bad_json"
