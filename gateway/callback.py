"""One callback from bytes to answer, pure of any web framework: verify, decrypt, check its age, normalize, dispatch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from config.clock import Clock
from config.errors import YizhanError
from config.logging import get_logger, log
from gateway import texts
from gateway.channel import CallbackRejected, CallbackReply, CallbackRequest, Channel
from gateway.dispatch import CLOSE, Dispatcher
from gateway.health import HEALTH_PREFIX

_logger = get_logger(__name__)
SKEW = "clock_skew"
"""The kind of the alert about callbacks from another time."""
_TELL_EVERY_S = 60.0
_USUAL_SKEW_S = 2
"""Whole seconds and the way of a callback alone make this much."""

TellOperators = Callable[[str, str, str], None]
"""Called with account id, kind and sentence; must return at once, as must ``url_verified`` (account id)."""


class CallbackHandler:
    """Turns a CallbackRequest into a CallbackReply. A client can cause 2xx and 4xx, never a 5xx."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        dispatcher: Dispatcher,
        clock: Clock,
        max_age_s: int,
        tell_operators: TellOperators | None = None,
        url_verified: Callable[[str], None] | None = None,
    ) -> None:
        self._channels = channels
        self._dispatcher = dispatcher
        self._clock = clock
        self._max_age_s = max_age_s
        self._tell_operators = tell_operators
        self._url_verified = url_verified
        self._told: dict[str, float] = {}

    async def handle(self, account_id: str, request: CallbackRequest) -> CallbackReply:
        """Answer one request to ``/callback/{account_id}``."""
        started = time.monotonic()
        channel = self._channels.get(account_id)
        if channel is None:
            return CallbackReply(status=404, body=f"{HEALTH_PREFIX}: no such account\n".encode())
        try:
            if request.method == "GET":
                return self._verify_url(channel, request)
            return await self._receive(channel, request, started)
        except CallbackRejected as rejected:
            log(_logger, "callback.rejected", account=account_id, code=rejected.code, hint=rejected.hint or None)
            return CallbackReply(status=rejected.status, body=f"{HEALTH_PREFIX} {account_id}: {rejected.code}\n".encode())
        except Exception as error:  # noqa: BLE001 -- the process boundary: unanswered, so that the platform delivers again
            code = error.code if isinstance(error, YizhanError) else type(error).__name__
            log(_logger, "callback.failed", account=account_id, code=code)
            return CLOSE

    def _verify_url(self, channel: Channel, request: CallbackRequest) -> CallbackReply:
        echo = channel.verify_url(request)
        self._check_age(channel, int((request.query.get("timestamp") or ("0",))[0] or 0))
        log(_logger, "callback.url_verified", account=channel.account.id)
        if self._url_verified is not None:
            self._url_verified(channel.account.id)
        return CallbackReply(status=200, body=echo, content_type="text/plain")

    async def _receive(self, channel: Channel, request: CallbackRequest, started: float) -> CallbackReply:
        opened = channel.open(request)
        self._check_age(channel, opened.timestamp_s)
        message = channel.normalize(opened.payload, is_json=opened.is_json, received_at_ms=self._clock.now_ms())
        skew_s = message.received_at_ms // 1000 - opened.timestamp_s if opened.timestamp_s else 0
        if abs(skew_s) > _USUAL_SKEW_S:
            message = replace(message, clock_skew_ms=skew_s * 1000)
        return await self._dispatcher.handle(channel, message, opened, started)

    def _check_age(self, channel: Channel, timestamp_s: int) -> None:
        """Refuse a signed callback from another time, and tell the operators how far off the clocks are (N-08)."""
        if not self._max_age_s:
            return
        skew_s = self._clock.now_ms() / 1000 - timestamp_s
        if abs(skew_s) > self._max_age_s:
            log(_logger, "callback.stale", account=channel.account.id, skew_s=round(skew_s))
            self._alert(channel.account.id, skew_s)
            raise CallbackRejected("stale", hint=f"the callback's timestamp is {skew_s:.0f} s away from this machine's clock")

    def _alert(self, account_id: str, skew_s: float) -> None:
        """Tell the operators; whoever replays old callbacks by the thousand costs one alert a minute, not a write each."""
        now = time.monotonic()
        if self._tell_operators is None or now - self._told.get(account_id, -_TELL_EVERY_S) < _TELL_EVERY_S:
            return
        self._told[account_id] = now
        direction = texts.CLOCK_FAST if skew_s > 0 else texts.CLOCK_SLOW
        text = texts.STALE_CALLBACK.format(skew_s=abs(round(skew_s)), direction=direction, max_age_s=self._max_age_s)
        self._tell_operators(account_id, SKEW, text)
