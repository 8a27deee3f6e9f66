"""Logs: one JSON line an event with a stable action, ids and durations; secrets never get through."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

from config.clock import Clock
from config.errors import YizhanError

INFO = logging.INFO
_MASK = "***"
_SHORTEST_SECRET = 6
_secrets: set[str] = set()
_listeners: list[Callable[[str, Mapping[str, Any]], None]] = []
_clock = Clock()

_PAIR = re.compile(
    r"""(?ix)\b(access_token|corpsecret|appsecret|app_secret|secret|api_key|apikey|password|encoding_aes_key
    |callback_token|token|key|msg_signature|signature|sig)(["']?\s*[=:]\s*["']?)[^\s&"',;)}\]]+"""
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+")
_API_KEY = re.compile(r"\byzk_[A-Za-z0-9_-]+")
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@]*@")
_FRAMES = 6


def register_secret(value: str | None) -> None:
    """From now on this exact text, plain or URL-quoted, is masked in every line. Short values cannot be told from words
    and are left to the patterns."""
    if value is None or len(value.strip()) < _SHORTEST_SECRET:
        return
    plain = value.strip()
    _secrets.update({plain, quote(plain, safe=""), quote_plus(plain)})


def redact(text: str) -> str:
    """The text with registered secrets, tokens in URLs, bearer tokens, API keys and URL passwords masked."""
    for secret in sorted(_secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, _MASK)
    text = _BEARER.sub(rf"\1 {_MASK}", text)
    text = _API_KEY.sub(f"yzk_{_MASK}", text)
    text = _USERINFO.sub(rf"\1{_MASK}@", text)
    return _PAIR.sub(rf"\1\2{_MASK}", text)


def get_logger(name: str) -> logging.Logger:
    """The logger of one module."""
    return logging.getLogger(name)


def log(logger: logging.Logger, action: str, level: int = INFO, *, error: BaseException | None = None, **fields: Any) -> None:
    """Write one event. ``action`` is stable (``outbox.sent``); fields are ids, counts, codes, durations in ``_ms``.

    Never pass a message body. ``error`` adds its type, code and frames; its text only when it is one of our own errors.
    """
    for listener in _listeners:
        listener(action, fields)
    if logger.isEnabledFor(level):
        logger.log(level, action, extra={"yizhan": fields}, exc_info=error)


def on_event(listener: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Call ``listener(action, fields)`` for every event from now on, whatever its level: metrics count actions by it. It must
    be quick, must not raise, and may be called from any thread."""
    _listeners.append(listener)


def setup_logging(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every log of the process to ``stream`` (default stderr) as JSON lines. May be called again; replaces the handler."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in (
        "asyncio",
        "aiohttp",
        "httpx",
        "httpcore",
        "httpx2",
        "httpcore2",
        "openai",
        "rq",
        "rq.worker",
        "sqlalchemy",
        "alembic",
        "jieba",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """A log record as one JSON object; foreign records become ``action: log``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, Chinese readable, no newline inside."""
        fields: Mapping[str, Any] | None = getattr(record, "yizhan", None)
        line: dict[str, Any] = {
            "at": _clock.local(int(record.created * 1000)).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "action": record.msg if fields is not None else "log",
        }
        if fields is None:
            line["message"] = redact(_foreign_message(record))
        for key, value in (fields or {}).items():
            if value is not None:
                line[key] = _safe(value)
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe_error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=lambda value: redact(str(value)))


def describe_error(error: BaseException) -> dict[str, Any]:
    """An exception as data: type, code, frames. A foreign exception's text may hold a body or a URL, so it is left out."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    told: dict[str, Any] = {
        "type": type(error).__name__,
        "at": [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if isinstance(error, YizhanError):
        told["code"] = error.code
        told["message"] = redact(str(error))
    cause = error.__cause__
    if cause is not None:
        told["cause"] = type(cause).__name__
    return told


def _foreign_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)


def _short(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {str(key): _MASK if _PAIR.match(f"{key}=x") else _safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_safe(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))
