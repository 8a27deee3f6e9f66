"""What a platform's errcode means for us: exactly one action each, and the typed errors of a failed call."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from config.clock import Clock
from config.errors import YizhanError

Context = Literal["token", "webhook", "repeat", "card_update"]
"""What kind of call failed, where the number alone is not enough: fetching a token, a group robot, a repeated send of
the same bytes after an unknown outcome, an update of a card. None for every other call."""

_ALIASES = {"oa": "mp", "wecom-aibot": "wecom", "wecom-kf": "wecom", "wecom-webhook": "wecom", "both": "wecom"}
_IP = re.compile(
    r"(?:from ip:?|invalid ip)\s*[:：]?\s*([0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]+)", re.IGNORECASE
)


class Action(StrEnum):
    """What delivery does next."""

    ok = "ok"
    refresh_token = "refresh_token"  # noqa: S105 - a word, not a secret
    """The client has refreshed and retried once already; on a final outcome it means: the token is refused, tell the operator."""
    retry = "retry"
    pause_account = "pause_account"
    """A quota: nothing of this account (context webhook: of this robot) goes before ``pause_until_ms``."""
    park = "park"
    """The window is closed: the person's next message flushes it."""
    switch_to_pull = "switch_to_pull"
    """This account cannot push at all."""
    target_fault = "target_fault"
    """This recipient only; never retried, told to the caller."""
    operator = "operator"
    """Configuration or permission: parked until an operator acts; alert."""
    degrade = "degrade"
    """Send a simpler form instead (``degrade`` of the channel); where ``stale_media`` is true, freeze again once first."""
    dead = "dead"
    """Our request is wrong, or nobody knows this number: no retry, alert."""


@dataclass(frozen=True, slots=True)
class ErrcodeTable:
    """One platform's numbers. ``special`` overrides ``actions`` in a context; ``pauses`` says how long a quota lasts."""

    actions: Mapping[int, Action]
    special: Mapping[tuple[Context, int], Action] = field(default_factory=dict)
    pauses: Mapping[int, Literal["minute", "day"]] = field(default_factory=dict)
    stale_media: frozenset[int] = frozenset()
    hints: Mapping[int, str] = field(default_factory=dict)
    """What the operator can do about it, in the operator's words; ``{ip}`` stands for our address as the platform sees it."""


class PlatformError(YizhanError):
    """A platform call failed; ``errcode`` is None when no usable answer came (see ``transport``)."""

    code = "platform"

    def __init__(
        self,
        message: str,
        *,
        platform: str,
        errcode: int | None = None,
        errmsg: str = "",
        transport: Literal["answered", "not_sent", "unknown"] = "answered",
        context: Context | None = None,
    ) -> None:
        super().__init__(message)
        self.platform = platform
        self.errcode = errcode
        self.errmsg = errmsg
        self.transport = transport
        self.context = context
        self.action = action_for(platform, errcode, context)
        self.retryable = self.action in (Action.retry, Action.pause_account)


class TokenUnavailable(PlatformError):
    """No access_token can be had now; nothing was sent."""

    code = "token_unavailable"


class TokenRejected(TokenUnavailable):
    """The platform refuses the token it has just given; one refresh was made, another would not help."""

    code = "token_rejected"


def action_for(platform: str, errcode: int | None, context: Context | None = None) -> Action:
    """The one action for an errcode of ``wecom`` or ``mp``; None is a transport failure. Negative unknown numbers are busy
    signals (retry); any other unknown number is dead, and ``is_known`` is False so that an operator hears of it."""
    if errcode is None:
        return Action.retry
    table = table_of(platform)
    if context is not None and (context, errcode) in table.special:
        return table.special[context, errcode]
    found = table.actions.get(errcode)
    if found is not None:
        return found
    return Action.retry if errcode < 0 else Action.dead


def is_known(platform: str, errcode: int) -> bool:
    """Whether the number is in the platform's table."""
    return errcode in table_of(platform).actions


def stale_media(platform: str, errcode: int | None) -> bool:
    """Whether the media id was refused: upload again (freeze anew) and send once more before degrading."""
    return errcode is not None and errcode in table_of(platform).stale_media


def pause_until_ms(platform: str, errcode: int | None, clock: Clock) -> int:
    """When a paused account may send again: 60 s on, or for a daily quota 00:00 Asia/Shanghai (epoch ms)."""
    pause = "minute" if errcode is None else table_of(platform).pauses.get(errcode, "minute")
    if pause == "minute":
        return clock.now_ms() + 60_000
    tomorrow = (clock.local() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return round(tomorrow.timestamp() * 1000)


def egress_ip(errmsg: str) -> str | None:
    """Our address as the platform sees it, from 60020 (``from ip: 1.2.3.4``) or 40164 (``invalid ip 1.2.3.4``)."""
    found = _IP.search(errmsg)
    return found.group(1) if found else None


def operator_hint(platform: str, errcode: int, errmsg: str = "") -> str | None:
    """What the operator can do, in Chinese, or None when there is no advice for this number."""
    hint = table_of(platform).hints.get(errcode)
    return None if hint is None else hint.replace("{ip}", egress_ip(errmsg) or "（见错误信息）")


@functools.cache
def table_of(platform: str) -> ErrcodeTable:
    """The table of a platform package: ``gateway.<platform>.errcodes.TABLE`` (found by name, so that this floor does not
    import the platforms above it)."""
    name = _ALIASES.get(platform, platform)
    table: ErrcodeTable = importlib.import_module(f"gateway.{name}.errcodes").TABLE
    return table
