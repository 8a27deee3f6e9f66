"""One attempt of one claimed outbox row: pace, freeze, send, settle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from config.clock import Clock
from config.database import Database
from config.errors import YizhanError
from config.logging import get_logger, log
from config.patience import write_patiently
from gateway import outbox_claims, texts
from gateway.account_state import record_capability, set_trouble, store_account
from gateway.alerts import Alerts
from gateway.channel import Channel, Part, SendOutcome, Target
from gateway.delivery_outcome import Alert, Attempt, Verdict, judge, judge_unknown, wants_fresh_media
from gateway.errors import Action, Context, PlatformError
from gateway.late import needs_label
from gateway.outbox import SqlOutbox
from gateway.outbox_claims import Claimed
from gateway.outbox_rows import pack, unpack
from gateway.outbox_states import Status, move
from gateway.throttle import Throttle

_logger = get_logger(__name__)
_SEND_S = 60.0
Observe = Callable[[str, str, str], None]
"""Told after every attempt: (account id, action, status)."""


@dataclass(frozen=True, slots=True)
class _Frozen:
    body: bytes
    duplicate_check: bool
    at_ms: int


class Sender:
    """Carries claimed rows to the platform. A row always ends in a state of N-03, whatever happens on the way."""

    def __init__(
        self,
        database: Database,
        channels: Mapping[str, Channel],
        outbox: SqlOutbox,
        clock: Clock,
        throttle: Throttle,
        alerts: Alerts,
        observe: Observe | None = None,
    ) -> None:
        self._database = database
        self._channels = channels
        self._outbox = outbox
        self._clock = clock
        self._throttle = throttle
        self._alerts = alerts
        self._observe = observe

    async def deliver(self, claim: Claimed) -> None:
        """Attempt the row once and store what came of it."""
        row = claim.row
        channel, target = self._channels[row["account_id"]], target_of(row)
        wait_ms = await self._throttle.take(row["account_id"], channel.platform, target)
        if wait_ms > 0:
            due = self._clock.now_ms() + wait_ms
            await write_patiently(self._database, lambda c: outbox_claims.put_back(c, claim, due))
            log(_logger, "outbox.paced", account=row["account_id"], group=row["group_id"], wait_ms=wait_ms)
            return
        frozen = await self._frozen(claim, channel, target)
        if frozen is None:
            return
        outcome, context = await self._send(channel, row["kind"], frozen.body, target)
        await self._conclude(claim, channel, target, frozen, outcome, context)

    async def take_over(self, claim: Claimed) -> None:
        """A row whose process died while it was ``sending``: never frozen means never sent; else it is ``unknown``."""
        row = claim.row
        channel, never_sent = self._channels.get(row["account_id"]), row["frozen_at_ms"] is None
        if channel is None or (never_sent and row["attempts"] <= 1):
            after: Status = "pending" if never_sent else "unknown"
            due = self._clock.now_ms() if never_sent else None
            await write_patiently(self._database, lambda c: outbox_claims.settle(c, claim, after, {"next_attempt_at_ms": due}))
            return
        attempt = self._attempt(row, channel, target_of(row), _Frozen(b"", row["duplicate_check"], row["frozen_at_ms"] or 0))
        if never_sent:  # a message that ends every process that tries it is not tried at once for ever
            await self._store(claim, judge(attempt, SendOutcome("not_sent", errmsg="the sending process died before it sent")))
            return
        await self._store(claim, judge_unknown(attempt, "the sending process died"))

    # freeze and send ------------------------------------------------------------------------------------------------
    async def _frozen(self, claim: Claimed, channel: Channel, target: Target) -> _Frozen | None:
        row = claim.row
        if row["request"] is not None:
            kept = _Frozen(row["request"], row["duplicate_check"], row["frozen_at_ms"])
            return kept if await write_patiently(self._database, lambda c: outbox_claims.still_held(c, claim)) else None
        part = await self._part(row, channel)
        check = target.webhook is None and channel.send_handle(row["kind"])
        try:
            body = await channel.freeze(part, target, duplicate_check=check, key=row["idempotency_key"])
            if check and await self._database.read(lambda c: outbox_claims.same_bytes_before(c, row, body, self._clock.now_ms())):
                check = False  # a genuine second message with the same words: the platform would swallow it (DUP-09)
                body = await channel.freeze(part, target, duplicate_check=False, key=row["idempotency_key"])
        except YizhanError as error:
            log(_logger, "outbox.freeze_failed", logging.WARNING, error=error, group=row["group_id"], part=row["part"])
            refusal = _refusal(error)
            if refusal is not None:
                await self._store(claim, self._degraded(claim, channel, refusal))
                return None
            outcome, context = _as_outcome(error, before_sending=True)
            await self._conclude(claim, channel, target, _Frozen(b"", False, self._clock.now_ms()), outcome, context)
            return None
        now = self._clock.now_ms()
        held = await write_patiently(
            self._database, lambda c: outbox_claims.freeze(c, claim, body, duplicate_check=check, now_ms=now)
        )
        return _Frozen(body, check, now) if held else None

    async def _part(self, row: Mapping[str, Any], channel: Channel) -> Part:
        late = "late" in row["payload"] and await self._database.read(
            lambda c: needs_label(c, row, channel.platform, self._clock.now_ms())
        )
        part = unpack(row["payload"], late=late)
        if part is None:
            raise YizhanError("a claimed row has no payload", code="no_payload")
        return part

    async def _send(self, channel: Channel, kind: str, body: bytes, target: Target) -> tuple[SendOutcome, Context | None]:
        try:
            async with asyncio.timeout(_SEND_S):
                outcome = await channel.send(kind, body, target=target)
                return outcome, outcome.data.get("context")
        except TimeoutError:
            return SendOutcome("unknown", errmsg="no answer in time"), None
        except YizhanError as error:
            return _as_outcome(error, before_sending=False)

    # settle ---------------------------------------------------------------------------------------------------------
    async def _conclude(
        self, claim: Claimed, channel: Channel, target: Target, frozen: _Frozen, outcome: SendOutcome, context: Context | None
    ) -> None:
        attempt = self._attempt(claim.row, channel, target, frozen)
        verdict = judge(attempt, outcome, context)
        if wants_fresh_media(attempt, outcome):
            verdict = self._once_more(verdict, {**claim.row["payload"], "refrozen": True}, claim.row["kind"])
        else:
            verdict = self._degraded(claim, channel, verdict)
        await self._store(claim, verdict)

    def _degraded(self, claim: Claimed, channel: Channel, verdict: Verdict) -> Verdict:
        """Where the verdict says so, the row with a simpler form, due at once; dead with an alert where there is none."""
        if verdict.action is not Action.degrade:
            return verdict
        refused = unpack(claim.row["payload"])
        simpler = None if refused is None else channel.degrade(refused)
        if simpler is not None:
            return self._once_more(verdict, pack(simpler), simpler.kind)
        code = verdict.values.get("errcode") or "media"
        return replace(verdict, alert=Alert(f"dead-{code}", texts.NO_SIMPLER_FORM.format(code=code)))

    def _once_more(self, verdict: Verdict, payload: Mapping[str, Any], kind: str) -> Verdict:
        """Send again at once with other bytes; the refused ones were certainly not delivered."""
        fresh = {"payload": payload, "kind": kind, "request": None, "frozen_at_ms": None, "duplicate_check": False}
        return replace(verdict, after="pending", values={**verdict.values, **fresh, "next_attempt_at_ms": self._clock.now_ms()})

    def _attempt(self, row: Mapping[str, Any], channel: Channel, target: Target, frozen: _Frozen) -> Attempt:
        return Attempt(
            row=row,
            platform=channel.platform,
            target=target,
            clock=self._clock,
            park_until_ms=self._outbox.park_until(row["expires_at_ms"]),
            give_up_ms=self._outbox.give_up_at(row["created_at_ms"]),
            duplicate_check=frozen.duplicate_check,
            frozen_at_ms=frozen.at_ms,
        )

    async def _store(self, claim: Claimed, verdict: Verdict) -> None:
        held = await write_patiently(self._database, lambda c: self._apply(c, claim, verdict))
        row, values = claim.row, verdict.values
        if self._observe is not None:
            self._observe(row["account_id"], verdict.action.value, verdict.after)
        if not held:
            log(_logger, "outbox.lost", logging.WARNING, group=row["group_id"], part=row["part"])
            return
        told = {
            "account": row["account_id"],
            "group": row["group_id"],
            "part": row["part"],
            "attempt": row["attempts"] + 1,
            "errcode": values.get("errcode"),
            "errmsg": values.get("errmsg"),
            "age_ms": self._clock.now_ms() - row["created_at_ms"],
        }
        if verdict.after == "sent":
            log(_logger, "outbox.sent", via="push", **told)
        else:
            log(_logger, "outbox.failed", logging.WARNING, treatment=verdict.action.value, status=verdict.after, **told)

    def _apply(self, connection: Connection, claim: Claimed, verdict: Verdict) -> bool:
        row = claim.row
        if not outbox_claims.settle(connection, claim, verdict.after, verdict.values, with_group=verdict.with_group):
            return False
        if verdict.after == "unknown":
            if verdict.repeat_at_ms is not None:
                outbox_claims.repeat(connection, row, verdict.repeat_at_ms)
            else:  # it may or may not have arrived: what follows it waits for the person
                rest = {"park_reason": "blocked", "next_attempt_at_ms": self._outbox.park_until(row["expires_at_ms"])}
                move(connection, outbox_claims.later_parts(row), "pending", "parked", rest)
        self._learn(connection, row, verdict)
        return True

    def _learn(self, connection: Connection, row: Mapping[str, Any], verdict: Verdict) -> None:
        account, tenant, now = row["account_id"], row["tenant_id"], self._clock.now_ms()
        if verdict.pause_until_ms is not None:
            pause = {"paused_until_ms": verdict.pause_until_ms, "pause_reason": str(verdict.values.get("errcode"))}
            store_account(connection, account, tenant, pause)
        if verdict.trouble is not None:
            set_trouble(connection, account, tenant, verdict.trouble, now)
        if verdict.pull_only and record_capability(connection, account, tenant, "pull", now):
            self._alerts.tell(connection, account, Alert("pull-only", texts.PULL_ONLY))
        if verdict.alert is not None:
            self._alerts.tell(connection, account, verdict.alert)


def target_of(row: Mapping[str, Any]) -> Target:
    """Where a row goes: its target, or the conversation's person."""
    target = row["target"]
    if target is None:
        return Target(users=(row["user_id"],))
    return Target(
        users=tuple(target.get("users") or ()),
        departments=tuple(target.get("departments") or ()),
        tags=tuple(target.get("tags") or ()),
        webhook=target.get("webhook"),
    )


def _as_outcome(error: YizhanError, *, before_sending: bool) -> tuple[SendOutcome, Context | None]:
    """A typed failure as an outcome. Before sending, an unknown transport (of an upload) is as good as not sent."""
    if isinstance(error, PlatformError):
        transport = "not_sent" if before_sending and error.transport == "unknown" else error.transport
        return SendOutcome(transport, errcode=error.errcode, errmsg=error.errmsg or error.code), error.context
    return SendOutcome("not_sent" if before_sending else "unknown", errmsg=error.code), None


def _refusal(error: YizhanError) -> Verdict | None:
    """What our own channel refused before any call: a file that cannot be sent goes as words, the rest is the row's end."""
    if isinstance(error, PlatformError) or error.retryable:
        return None
    action = Action.degrade if error.code.startswith("media_") else Action.target_fault
    return Verdict("dead", action, {"errmsg": f"{error.code}: {error}"[:200], "next_attempt_at_ms": None})
