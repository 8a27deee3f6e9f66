"""Fault switches: what can go wrong on the platforms' side, on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FAULTS: dict[str, str] = {
    "token_revoked": "once: every live token of the account is refused with 40014 (WeCom) or 40001",
    "token_expired": "once: every live token of the account is refused with 42001",
    "token_invalid_now": "live tokens are refused at once; while on, a new token kills the one before without overlap",
    "token_refused": "while on, every call with a token is refused (40014 / 40001), fresh tokens too",
    "busy": "-1 system busy",
    "quota": "45009",
    "ip_blocked": "60020 (WeCom) or 40164 with the caller's address",
    "errcode": "answer with `value` as errcode",
    "accept_then_timeout": "the call takes effect, then no answer comes",
    "accept_then_502": "the call takes effect, then HTTP 502 with an HTML body",
    "accept_then_close": "the call takes effect, then the connection is closed",
    "connection_refused": "the connection is closed before anything happens",
    "slow_ms": "answers take `value` milliseconds longer",
    "http_500": "HTTP 500 with a text body",
    "html_200": "HTTP 200 with an HTML page",
    "empty_200": "HTTP 200 with an empty body",
    "truncated_json": "HTTP 200 with half a JSON body",
    "silent_drop": "sends answer errcode 0 but are not delivered",
    "template_failed": "the TEMPLATESENDJOBFINISH event says failed: system failed",
    "template_blocked": "the TEMPLATESENDJOBFINISH event says failed:user block",
    "callback_latency_ms": "callbacks travel `value` milliseconds each way, inside the 5 s",
    "callback_refused": "callbacks cannot connect",
    "callback_lose_reply": "the gateway's answer is lost on the way; the platform delivers again",
}
_ALIASES = {
    "-1": "busy",
    "45009": "quota",
    "60020": "ip_blocked",
    "40164": "ip_blocked",
    "40014": "token_revoked",
    "42001": "token_expired",
    "token_invalidated": "token_invalid_now",
    "ip": "ip_blocked",
    "system_busy": "busy",
    "token_invalid": "token_invalid_now",
    "invalid_now": "token_invalid_now",
    "slow": "slow_ms",
    "delay_ms": "slow_ms",
    "timeout": "accept_then_timeout",
    "accept_timeout": "accept_then_timeout",
    "timeout_after_accept": "accept_then_timeout",
    "accept_then_drop": "accept_then_close",
    "500": "http_500",
    "502": "accept_then_502",
    "html": "html_200",
    "drop": "silent_drop",
    "callback_latency": "callback_latency_ms",
    "latency_ms": "callback_latency_ms",
    "refused": "connection_refused",
}
MOMENTARY = frozenset({"token_revoked", "token_expired"})
"""Faults that act once, when they are switched on."""
_DEFAULT_VALUE = {"slow_ms": 1000, "callback_latency_ms": 300, "errcode": -1}


class FaultError(ValueError):
    """A fault switch that does not exist or is not understood."""


@dataclass
class Fault:
    """One switch that is on. ``count`` None = until switched off; ``path`` = end of an API path; None = all."""

    name: str
    account: str | None = None
    path: str | None = None
    count: int | None = None
    value: int = 0

    def matches(self, account: str | None, path: str | None) -> bool:
        """True when this fault concerns a call of this account to this path."""
        right_account = self.account is None or self.account == account
        return right_account and (self.path is None or (path is not None and path.endswith(self.path.rstrip("/"))))


class Faults:
    """The switches that are on, newest first."""

    def __init__(self) -> None:
        self._on: list[Fault] = []

    def listing(self) -> list[dict[str, Any]]:
        """Every switch that is on, as JSON."""
        return [asdict(fault) for fault in self._on]

    def clear(self) -> None:
        """Switch everything off."""
        self._on.clear()

    def set(self, raw: Mapping[str, Any]) -> list[Fault]:
        """Switch on or off; returns the faults that this request switched on. Raises FaultError."""
        if raw.get("clear") or raw.get("name") in ("*", "all", "none"):
            self.clear()
            return []
        if "name" not in raw and "fault" not in raw:
            return self._set_by_key(raw)
        name = _name(str(raw.get("name", raw.get("fault"))))
        account, path = _text(raw.get("account")), _text(raw.get("path"))
        on = raw.get("on", raw.get("enabled", True))
        if raw.get("off"):
            on = False
        self._on = [f for f in self._on if not (f.name == name and f.account == account and f.path == path)]
        if on is False or on == 0 or on in ("off", "false"):
            return []
        count = raw.get("count", raw.get("times"))
        fault = Fault(name, account, path, None if count is None else int(count), _value(name, raw))
        if name not in MOMENTARY:
            self._on.insert(0, fault)
        return [fault]

    def take(self, name: str, account: str | None, path: str | None = None, *, path_named: bool = False) -> Fault | None:
        """The matching fault, one use spent; None when there is none. ``path_named``: only one that names its path."""
        for fault in self._on:
            if path_named and fault.path is None:
                continue
            if fault.name == name and fault.matches(account, path):
                if fault.count is not None:
                    fault.count -= 1
                    if fault.count <= 0:
                        self._on.remove(fault)
                return fault
        return None

    def active(self, name: str, account: str | None) -> bool:
        """True while a matching fault is on; spends nothing."""
        return any(fault.name == name and fault.matches(account, None) for fault in self._on)

    def _set_by_key(self, raw: Mapping[str, Any]) -> list[Fault]:
        shared = {key: raw[key] for key in ("account", "path", "count") if key in raw}
        names = [key for key in raw if key not in shared]
        if not names:
            raise FaultError("name a fault, or clear: true")
        started: list[Fault] = []
        for key in names:
            setting = raw[key]
            request: dict[str, Any] = {"name": key, **shared}
            if isinstance(setting, Mapping):
                request.update(setting)
            elif isinstance(setting, bool) or setting is None:
                request["on"] = bool(setting)
            elif _name(key) in _DEFAULT_VALUE:
                request.update(value=setting, on=setting != 0)
            else:
                request.update(count=int(setting), on=setting != 0)
            started += self.set(request)
        return started


def _name(given: str) -> str:
    name = _ALIASES.get(given, given)
    if name not in FAULTS:
        raise FaultError(f"no fault called {given}; there are: {', '.join(FAULTS)}")
    return name


def _value(name: str, raw: Mapping[str, Any]) -> int:
    if "seconds" in raw:
        return round(float(raw["seconds"]) * 1000)
    for key in ("value", "ms", "delay_ms", "errcode", "code", name):
        if key in raw and not isinstance(raw[key], bool):
            return int(raw[key])
    return _DEFAULT_VALUE.get(name, 0)


def _text(value: Any) -> str | None:
    return None if value in (None, "", "*") else str(value)
