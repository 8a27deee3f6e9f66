"""What an attempt's outcome means for its row: one pure decision, no SQL and no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tenacity import RetryCallState, Retrying, wait_exponential, wait_random
from tenacity.wait import wait_base

from agent.protocol import Platform
from config.clock import Clock
from config.logging import redact
from gateway import texts
from gateway.channel import SendOutcome, Target
from gateway.errors import Action, Context, action_for, egress_ip, is_known, operator_hint, pause_until_ms, stale_media
from gateway.outbox_claims import DUPLICATE_WINDOW_MS
from gateway.outbox_states import Status

QUICK_ATTEMPTS = 3
_QUICK = wait_exponential(multiplier=0.5, exp_base=3, max=6) + wait_random(0, 0.5)
_SLOW = wait_exponential(multiplier=15, exp_base=2, max=600) + wait_random(0, 10)
_TEMPLATE_WINDOW_MS = 600_000
"""How long client_msg_id makes a template message unique (oa.template.client_msg_id)."""
_HANDLE_MARGIN_MS = 120_000
_ERRMSG_CHARS = 300
INVALID_USER = 81013

ACCOUNT_WIDE = frozenset({60020, 40164, 40001, 40013, 40014, 40091, 41004, 42001, 42007, 50003, 301002, 2000002})
"""Errcodes (with action ``operator`` or a refused token) that every further call of the account would meet again."""


@dataclass(frozen=True, slots=True)
class Alert:
    """What an operator should hear: ``kind`` for telling repeats apart, the sentence without secrets or bodies."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where the row goes, and what the attempt taught about the account."""

    after: Status
    action: Action
    values: Mapping[str, Any] = field(default_factory=dict)
    with_group: bool = False
    repeat_at_ms: int | None = None
    """Only for ``unknown``: it is sent again then."""
    pause_until_ms: int | None = None
    pull_only: bool = False
    trouble: str | None = None
    alert: Alert | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What deciding needs: the row as it was claimed, its platform and target, and the moment."""

    row: Mapping[str, Any]
    platform: Platform
    target: Target
    clock: Clock
    park_until_ms: int
    give_up_ms: int
    duplicate_check: bool
    frozen_at_ms: int

    @property
    def number(self) -> int:
        """1 for the first attempt."""
        return int(self.row["attempts"]) + 1

    @property
    def context(self) -> Context | None:
        """What errors.action_for needs beside the number."""
        if self.target.webhook is not None:
            return "webhook"
        if self.row["repeats"]:
            return "repeat"
        return "card_update" if self.row["kind"] == "card_update" else None

    @property
    def recognized_until_ms(self) -> int:
        """Until when the platform recognizes a repeat of the frozen bytes; 0 when it never does."""
        if not self.duplicate_check:
            return 0
        window = DUPLICATE_WINDOW_MS if self.platform == "wecom" else _TEMPLATE_WINDOW_MS
        return self.frozen_at_ms + window - _HANDLE_MARGIN_MS


def retry_wait_ms(attempt: int) -> int:
    """How long after failed attempt number ``attempt`` (from 1) the next one comes, jittered; slow after the third."""
    quick = attempt <= QUICK_ATTEMPTS
    wait: wait_base = _QUICK if quick else _SLOW
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt if quick else attempt - QUICK_ATTEMPTS
    return round(wait(state) * 1000)


def judge(attempt: Attempt, outcome: SendOutcome, context: Context | None = None) -> Verdict:
    """Decide. Success is errcode 0 and nothing else (DEL-21); no usable answer after sending is ``unknown`` (DUP-08)."""
    if outcome.transport == "not_sent":
        return _retry(attempt, {"errmsg": _message(outcome)})
    if outcome.transport == "unknown" or outcome.errcode is None:
        return judge_unknown(attempt, _message(outcome))
    action = action_for(attempt.platform, outcome.errcode, context or attempt.context)
    told = {"errcode": outcome.errcode, "errmsg": _message(outcome) or None}
    if action is Action.ok:
        return _accepted(attempt, outcome, told)
    if action is Action.retry:
        return _retry(attempt, told)
    if action is Action.pause_account:
        return _pause(attempt, outcome, told)
    if action in (Action.park, Action.switch_to_pull):
        reason = "window" if action is Action.park else "pull"
        parked = {**told, "park_reason": reason, "next_attempt_at_ms": attempt.park_until_ms}
        pull_only = action is Action.switch_to_pull
        return Verdict("parked", action, parked, with_group=True, pull_only=pull_only)
    if action in (Action.operator, Action.refresh_token):
        verdict = _operator(attempt, outcome, told)
        fetch_failed = context == "token" and not outcome.data.get("token_rejected")
        return replace(verdict, alert=None) if fetch_failed else verdict  # the token store has told (TOK-13)
    if action is Action.degrade:
        return Verdict("dead", action, {**told, "next_attempt_at_ms": None})  # the caller tries a simpler form first
    return _dead(attempt, outcome, told, action)


def judge_unknown(attempt: Attempt, errmsg: str = "") -> Verdict:
    """N-05: repeated only where the platform recognizes the repeat; a final answer to a person once; else left."""
    now = attempt.clock.now_ms()
    told = {"errcode": None, "errmsg": errmsg or None, "next_attempt_at_ms": None}
    row = attempt.row
    due = now + retry_wait_ms(attempt.number)
    if due < attempt.recognized_until_ms:
        return Verdict("unknown", Action.retry, told, repeat_at_ms=due)
    if row["final"] and row["cause"] == "inbound" and row["repeats"] == 0:
        return Verdict("unknown", Action.retry, told, repeat_at_ms=due)
    return Verdict("unknown", Action.retry, told)


def _accepted(attempt: Attempt, outcome: SendOutcome, told: dict[str, Any]) -> Verdict:
    refused = {user.lower() for user in outcome.invalid_users}
    wanted = [user for user in attempt.target.users if user.lower() not in refused]
    if attempt.target.users and not wanted:
        errmsg = f"invaliduser: {'|'.join(outcome.invalid_users)}"[:_ERRMSG_CHARS]
        return Verdict("dead", Action.target_fault, {"errcode": INVALID_USER, "errmsg": errmsg, "next_attempt_at_ms": None})
    values = {
        **told,
        "errmsg": f"invaliduser: {'|'.join(outcome.invalid_users)}"[:_ERRMSG_CHARS] if refused else None,
        "via": "push",
        "sent_at_ms": attempt.clock.now_ms(),
        "platform_id": outcome.platform_id,
        "response_code": outcome.response_code,
        "next_attempt_at_ms": None,
    }
    return Verdict("sent", Action.ok, values)


def _retry(attempt: Attempt, told: dict[str, Any]) -> Verdict:
    now = attempt.clock.now_ms()
    due = now + retry_wait_ms(attempt.number)
    expires = attempt.row["expires_at_ms"]
    if expires is not None and due >= expires:
        return Verdict("expired", Action.retry, {**told, "next_attempt_at_ms": None})
    if due >= attempt.give_up_ms:
        return Verdict("dead", Action.dead, {**told, "next_attempt_at_ms": None})
    return Verdict("pending", Action.retry, {**told, "next_attempt_at_ms": due})


def _pause(attempt: Attempt, outcome: SendOutcome, told: dict[str, Any]) -> Verdict:
    until = pause_until_ms(attempt.platform, outcome.errcode, attempt.clock)
    values = {**told, "next_attempt_at_ms": until, "attempts": attempt.row["attempts"]}
    if attempt.target.webhook is not None:
        return Verdict("pending", Action.pause_account, values)
    back = attempt.clock.local(until).strftime("%m-%d %H:%M:%S")
    alert = Alert(f"quota-{outcome.errcode}", texts.QUOTA_USED.format(errcode=outcome.errcode, back=back))
    return Verdict("pending", Action.pause_account, values, pause_until_ms=until, alert=alert)


def _operator(attempt: Attempt, outcome: SendOutcome, told: dict[str, Any]) -> Verdict:
    errcode = outcome.errcode or 0
    hint = operator_hint(attempt.platform, errcode, outcome.errmsg) or texts.CHECK_PERMISSIONS
    address = egress_ip(outcome.errmsg)
    named = texts.EGRESS_IP.format(address=address) if address and address not in hint else ""
    alert = Alert(f"operator-{errcode}", texts.NOT_DELIVERABLE.format(errcode=errcode, hint=hint, address=named))
    wide = errcode in ACCOUNT_WIDE and attempt.target.webhook is None
    parked = {**told, "park_reason": "operator", "next_attempt_at_ms": attempt.park_until_ms}
    trouble = f"{errcode} {hint}{named}"[:_ERRMSG_CHARS] if wide else None
    return Verdict("parked", Action.operator, parked, with_group=True, trouble=trouble, alert=alert)


def _dead(attempt: Attempt, outcome: SendOutcome, told: dict[str, Any], action: Action) -> Verdict:
    values = {**told, "next_attempt_at_ms": None}
    if action is Action.target_fault:
        return Verdict("dead", action, values)
    errcode = outcome.errcode or 0
    unknown = "" if is_known(attempt.platform, errcode) else texts.UNKNOWN_ERRCODE
    return Verdict(
        "dead", action, values, alert=Alert(f"dead-{errcode}", texts.REFUSED_MESSAGE.format(code=f"{errcode}{unknown}"))
    )


def wants_fresh_media(attempt: Attempt, outcome: SendOutcome) -> bool:
    """Whether the refusal only means that an uploaded file is gone: upload again once before anything else."""
    payload = attempt.row["payload"] or {}
    return outcome.transport == "answered" and stale_media(attempt.platform, outcome.errcode) and "refrozen" not in payload


def _message(outcome: SendOutcome) -> str:
    return redact(outcome.errmsg)[:_ERRMSG_CHARS]
