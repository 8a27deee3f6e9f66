"""One API call: who calls, with which token, what the JSON says; shared by both platforms' handlers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from .accounts import SimAccount
from .answers import Refused
from .callbacks import Callbacks
from .faults import Fault
from .world import World

CALLER_IP = "203.0.113.7"
"""The address both platforms say they are called from (a documentation address)."""


@dataclass
class Call:
    """A call while it is handled. ``account`` is set once a token or credential names it."""

    world: World
    callbacks: Callbacks
    request: web.Request
    path: str
    query: Mapping[str, str]
    body: bytes = b""
    account: SimAccount | None = None
    drop: Fault | None = None
    """Set when the call shall answer well without taking effect (silent_drop)."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the call's record says beside request and answer."""

    @property
    def owner(self) -> SimAccount:
        """The account the token belongs to. Raises Refused 41001 without one."""
        if self.account is None:
            raise Refused(41001)
        return self.account

    def json(self) -> dict[str, Any]:
        """The request's JSON object. Raises Refused 44002 (empty) or 47001."""
        if not self.body.strip():
            raise Refused(44002)
        try:
            parsed = json.loads(self.body)
        except ValueError:
            raise Refused(47001) from None
        if not isinstance(parsed, dict):
            raise Refused(47001)
        return parsed


Handler = Callable[[Call], Awaitable[dict[str, Any] | web.StreamResponse]]


def find_account(call: Call, app_id: str, wecom: bool) -> list[SimAccount]:
    """Every account with this corp_id or app_id."""
    return [a for a in call.world.accounts.values() if a.app_id == app_id and a.wecom == wecom]


def ok(**more: Any) -> dict[str, Any]:
    """The success answer with further fields."""
    return {"errcode": 0, "errmsg": "ok", **more}
