"""What an endpoint's refusal means: from its status, or from the error it hides in a 200, to a ModelError of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.llm.base import ErrorKind, ModelError, Reason

_MAX_REST_S = 60.0
_READ_CHARS = 4000
_SIGNS: tuple[tuple[Reason, re.Pattern[str]], ...] = (
    (
        "too_long",
        re.compile(
            r"context[ _]?(length|window|size)|maximum (context|input|prompt)|prompt is too long|too many (input )?tokens"
            r"|input (is |tokens? |length )?.{0,20}(too long|exceed)|range of input length|exceed.{0,40}(max_model_len|n_ctx)"
            r"|(输入|上下文|提示词|prompt).{0,12}(过长|太长|超过|超出|超长)"
        ),
    ),
    (
        "filtered",
        re.compile(
            r"content[_ ]?(filter|policy|management)|responsibleai|data_?inspection|inappropriate content|sensitive"
            r"|risk_control|内容安全|敏感|违规|不安全"
        ),
    ),
    (
        "no_tools",
        re.compile(
            r"(not support|unsupported|not (available|enabled|allowed)).{0,40}(tool|function[ _]?call)"
            r"|(tools?|function[ _]?call(s|ing)?)['\" ]{0,2} (is |are )?(param\w* )?(not|un)[ -]?support"
            r"|enable-auto-tool-choice|tool[-_]call[-_]parser"
        ),
    ),
    ("quota", re.compile(r"insufficient.{0,3}(quota|balance|credit)|exceeded your current quota|arrear|欠费|余额不足|billing")),
    (
        "no_model",
        re.compile(r"model.{0,80}(not (found|exist)|does not exist|unknown)|(no such|unknown|invalid) model|模型不存在"),
    ),
)
_BUSY = re.compile(
    r"rate[ _]?limit|too many requests|overloaded|throttl|insufficient_system_resource|concurren|限流|繁忙|频率|并发"
)


def of_status(status: int, body: object, retry_after: str | None = None) -> ModelError:
    """The error of an HTTP status. Only our own words are kept of the body."""
    reason = reason_of(status, str(body)[:_READ_CHARS].lower()) if 400 <= status < 500 else None
    if 300 <= status < 400:
        reason = "redirect"
    return ModelError(_kind(status), f"HTTP {status}", status=status, reason=reason, rest_s=_rest_s(status, retry_after))


def of_payload(payload: Mapping[str, Any], *, is_error: bool = False) -> ModelError | None:
    """The error inside a body or a chunk that came with a 200; None for an ordinary one.

    ``{"error": ...}``, ``{"object": "error"}``, MiniMax's ``base_resp``, ``{"success": false}``, and a code with a message
    where the choices should be.
    """
    error = _hidden(payload, is_error)
    if error is None:
        return None
    text = str(error)[:_READ_CHARS].lower()
    status = next((code for code in _codes(error) if 400 <= code < 600), None)
    reason = reason_of(status or 400, text)
    if status is None:
        status = 429 if _BUSY.search(text) else 400 if reason is not None else 500
    return ModelError(_kind(status), "an error in a 200", status=status, reason=reason if status < 500 else None)


def reason_of(status: int, text: str) -> Reason | None:
    """Why it was refused, as far as the status and the (lower-case) body tell."""
    if status in (401, 403):
        return "quota" if _SIGNS[3][1].search(text) else "key"
    if status == 402:
        return "quota"
    if status == 413:
        return "too_long"
    found = next((reason for reason, sign in _SIGNS if sign.search(text)), None)
    if status in (404, 405) and found is None and "conversation" not in text:
        return "no_model"
    return found


def _kind(status: int) -> ErrorKind:
    if status == 429:
        return "busy"
    if status == 408:
        return "timeout"
    return "server" if status >= 500 else "refused"


def _rest_s(status: int, retry_after: str | None) -> float:
    if status not in (429, 503, 529) or retry_after is None:
        return 0.0
    try:
        return max(0.0, min(float(retry_after), _MAX_REST_S))
    except ValueError:
        return 0.0  # an HTTP date: nobody's model server sends one, and clocks differ


def _hidden(payload: Mapping[str, Any], is_error: bool) -> object | None:
    if payload.get("error"):
        error = payload["error"]
        return dict(error) if isinstance(error, Mapping) else error
    if is_error or payload.get("object") == "error" or payload.get("success") is False:
        return dict(payload)
    base = payload.get("base_resp")
    if isinstance(base, Mapping) and base.get("status_code"):
        return dict(base)
    told = any(isinstance(payload.get(name), str | list) for name in ("message", "msg", "detail", "error_msg"))
    return dict(payload) if told and not payload.get("choices") else None


def _codes(error: object) -> list[int]:
    found = []
    for name in ("code", "status", "status_code", "http_status", "error_code"):
        value = error.get(name) if isinstance(error, Mapping) else None
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
            found.append(int(value))
    return found
