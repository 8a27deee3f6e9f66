"""Logs: one readable JSON line an event, and nothing secret in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from config.errors import YizhanError
from config.logging import get_logger, log, redact, register_secret, setup_logging

CANARY = "canary-7f3a+b/c="


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    output = io.StringIO()
    setup_logging("INFO", output)
    yield output
    root.handlers[:] = handlers
    root.setLevel(level)


def last(stream: io.StringIO) -> dict[str, Any]:
    data = json.loads(stream.getvalue().splitlines()[-1])
    assert isinstance(data, dict)
    return data


def test_an_event_is_one_json_line(stream: io.StringIO) -> None:
    log(get_logger("gateway.outbox"), "outbox.sent", account="wecom-main", took_ms=12, reason="超出额度", none=None)
    line = last(stream)
    assert line["action"] == "outbox.sent"
    assert (line["account"], line["took_ms"], line["reason"]) == ("wecom-main", 12, "超出额度")
    assert "none" not in line
    assert line["at"].endswith("+08:00")
    assert "超出额度" in stream.getvalue()


def test_n_22_secrets_are_masked_wherever_they_stand(stream: io.StringIO) -> None:
    """N-22: registered secrets, tokens in URLs, bearer tokens, keys, URL passwords."""
    register_secret(CANARY)
    values = [
        f"x {CANARY} y",
        "GET https://q.example/cgi-bin/message/send?access_token=AAA&debug=1",
        "https://q.example/gettoken?corpid=ww1&corpsecret=canary-2",
        "webhook/send?key=canary-3-aaaa",
        "Authorization: Bearer canary-4",
        "yzk_canary5_x-y",
        "postgresql://user:canary-6@db/yizhan",
        '{"access_token": "canary-7"}',
    ]
    log(get_logger("t"), "test", values=values, nested={"secret": "canary-8", "url": values[1]})
    get_logger("third").error("failed %s", values[1])
    text = stream.getvalue()
    assert "canary" not in text.lower()
    assert "AAA" not in text
    assert "corpid=ww1" in text


def test_n_22_foreign_exceptions_are_told_without_their_text(stream: io.StringIO) -> None:
    """N-22: a library's exception may hold a URL or a body; only its type and frames are written."""
    try:
        raise RuntimeError("body: canary body text")
    except RuntimeError as error:
        log(get_logger("t"), "failed", logging.ERROR, error=error)
        get_logger("third").exception("oops")
    text = stream.getvalue()
    assert "canary" not in text
    assert last(stream)["error"]["type"] == "RuntimeError"
    assert any("test_logging.py" in frame for frame in last(stream)["error"]["at"])


def test_own_errors_carry_code_and_message(stream: io.StringIO) -> None:
    log(get_logger("t"), "failed", error=YizhanError("the account is paused", code="paused"))
    assert last(stream)["error"] == {"type": "YizhanError", "at": [], "code": "paused", "message": "the account is paused"}


def test_ordinary_text_is_left_alone() -> None:
    assert redact("conversation c0abc took 12 ms, tokens: many") == "conversation c0abc took 12 ms, tokens: many"
