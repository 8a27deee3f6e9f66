"""The one decision after an attempt, for every action and every kind of unknown."""

from __future__ import annotations

from typing import Any

import pytest

from config.clock import FixedClock
from gateway.channel import SendOutcome, Target
from gateway.delivery_outcome import Attempt, judge, judge_unknown, retry_wait_ms
from gateway.outbox_claims import DUPLICATE_WINDOW_MS

CLOCK = FixedClock()
NOW = CLOCK.now_ms()
WEEK = NOW + 7 * 86_400_000


def attempt(platform: Any = "wecom", **changes: Any) -> Attempt:
    """A first attempt to one person."""
    row: dict[str, Any] = {"attempts": 0, "repeats": 0, "final": False, "cause": "push", "expires_at_ms": None, "kind": "text"}
    names = ("target", "duplicate_check", "frozen_at_ms", "give_up_ms")
    given = {name: changes.pop(name) for name in names if name in changes}
    values: dict[str, Any] = {
        "target": Target(users=("zhangsan",)),
        "duplicate_check": platform == "wecom",
        "frozen_at_ms": NOW,
        "give_up_ms": WEEK,
        **given,
    }
    return Attempt(row={**row, **changes}, platform=platform, clock=CLOCK, park_until_ms=WEEK, **values)


@pytest.mark.parametrize(
    ("platform", "errcode", "after", "reason"),
    [
        ("wecom", 0, "sent", None),
        ("wecom", -1, "pending", None),
        ("wecom", 45033, "pending", None),
        ("wecom", 45009, "pending", None),
        ("mp", 45015, "parked", "window"),
        ("mp", 45047, "parked", "window"),
        ("mp", 48001, "parked", "pull"),
        ("wecom", 60020, "parked", "operator"),
        ("mp", 40164, "parked", "operator"),
        ("wecom", 42001, "parked", "operator"),
        ("wecom", 81013, "dead", None),
        ("wecom", 45002, "dead", None),
        ("wecom", 987654, "dead", None),
    ],
)
def test_one_errcode_one_fate(platform: str, errcode: int, after: str, reason: str | None) -> None:
    """DEL-01, DEL-14, DEL-17, DEL-21: success is errcode 0 and nothing else; every other number has its one treatment."""
    verdict = judge(attempt(platform), SendOutcome("answered", errcode=errcode, errmsg="x"))
    assert verdict.after == after
    assert verdict.values.get("park_reason") == reason
    assert verdict.values["errcode"] == errcode
    assert (verdict.values.get("via") == "push") == (after == "sent")


def test_an_answer_without_an_errcode_is_unknown() -> None:
    """DUP-08: a body we cannot read is no success and no failure."""
    assert judge(attempt("mp"), SendOutcome("answered")).after == "unknown"


def test_unknown_is_repeated_only_inside_the_platforms_window() -> None:
    """N-05: with the duplicate check a repeat is safe while the platform remembers the first."""
    assert judge_unknown(attempt()).repeat_at_ms is not None
    old = attempt(frozen_at_ms=NOW - DUPLICATE_WINDOW_MS)
    assert judge_unknown(old).repeat_at_ms is None
    template = attempt("mp", kind="template", duplicate_check=True, frozen_at_ms=NOW - 540_000)
    assert judge_unknown(template).repeat_at_ms is None


def test_unknown_final_answer_is_repeated_once() -> None:
    """N-05: at least one answer always; the repeat is counted, and not repeated again."""
    final = {"final": True, "cause": "inbound"}
    assert judge_unknown(attempt("mp", **final)).repeat_at_ms is not None
    assert judge_unknown(attempt("mp", repeats=1, **final)).repeat_at_ms is None
    assert judge_unknown(attempt("mp")).repeat_at_ms is None


def test_a_card_that_exists_already_was_delivered() -> None:
    """N-05: a repeated card that the platform knows by its task_id counts as sent."""
    assert judge(attempt(kind="template_card", repeats=1), SendOutcome("answered", errcode=42014)).after == "sent"
    assert judge(attempt(kind="template_card"), SendOutcome("answered", errcode=42014)).after == "dead"


def test_waits_grow_and_are_jittered() -> None:
    """Three quick attempts, then slow ones up to ten minutes; two rows that fail together do not come back together."""
    waits = [[retry_wait_ms(number) for _ in range(20)] for number in range(1, 12)]
    assert max(waits[0]) <= 1_000
    assert max(waits[2]) <= 6_500
    assert min(waits[3]) >= 15_000
    assert max(waits[10]) <= 610_000
    assert all(len(set(chosen)) > 5 for chosen in waits)


def test_a_retry_that_comes_too_late_is_not_made() -> None:
    """An expiring row expires with its last error; a row that failed for a week is dead; both stay visible."""
    busy = SendOutcome("answered", errcode=-1, errmsg="system error")
    assert judge(attempt(expires_at_ms=NOW + 10), busy).after == "expired"
    assert judge(attempt(give_up_ms=NOW), busy).after == "dead"


def test_a_robots_quota_pauses_no_account() -> None:
    """A group robot over its 20 a minute waits by itself."""
    verdict = judge(attempt(target=Target(webhook="ops")), SendOutcome("answered", errcode=45009))
    assert (verdict.after, verdict.pause_until_ms, verdict.alert) == ("pending", None, None)
    paused = judge(attempt(), SendOutcome("answered", errcode=45009))
    assert paused.pause_until_ms == NOW + 60_000
    assert paused.values["attempts"] == 0


def test_secrets_in_a_platforms_message_are_masked() -> None:
    """N-22: errmsg is redacted and short before it is stored."""
    verdict = judge(attempt(), SendOutcome("answered", errcode=45002, errmsg="bad access_token=abc123 " + "x" * 999))
    assert "abc123" not in str(verdict.values["errmsg"])
    assert len(str(verdict.values["errmsg"])) <= 300
