"""Every errcode has one action."""

from __future__ import annotations

from typing import Any

import pytest

from config.clock import FixedClock
from gateway.errors import (
    Action,
    PlatformError,
    action_for,
    egress_ip,
    is_known,
    operator_hint,
    pause_until_ms,
    stale_media,
    table_of,
)
from tests.shared_data import shared_path

_CONTEXTS = {"gettoken": "token", "token / stable_token": "token", "webhook/send": "webhook"}
_ALLOWED = {
    "ok": {Action.ok},
    "refresh_token": {Action.refresh_token},
    "retry_backoff": {Action.retry},
    "rate_limit": {Action.pause_account, Action.retry},
    "give_up_operator": {Action.operator, Action.switch_to_pull},
    "invalid_user": {Action.target_fault},
    "fallback_channel": {Action.park, Action.degrade},
    "bug": {Action.dead, Action.ok},
    "media_refresh": {Action.degrade},
    "card": {Action.degrade},
}


def _records() -> list[Any]:
    path = shared_path("protocol/api_errors.json")
    if path is None:
        return [pytest.param({}, marks=pytest.mark.skip(reason="reference data is not beside the checkout (YIZHAN_SHARED)"))]
    import json

    records = json.loads(path.read_text("utf-8"))["errors"]
    return [pytest.param(r, id=f"{r['platform']}-{r['errcode']}-{r['context']}") for r in records]


@pytest.mark.parametrize("record", _records())
def test_every_errcode_has_exactly_one_action(record: dict[str, Any]) -> None:
    platform = "mp" if record["platform"] == "oa" else record["platform"]
    action = action_for(platform, record["errcode"], _CONTEXTS.get(record["context"] or ""))  # type: ignore[arg-type]
    assert action in _ALLOWED[record["treatment"]]
    if record["errcode"] is not None:
        assert is_known(platform, record["errcode"])


@pytest.mark.parametrize("platform", ["wecom", "mp"])
def test_no_number_is_listed_twice(platform: str) -> None:
    module = __import__(f"gateway.{platform}.errcodes", fromlist=["_GROUPS"])
    numbers = [errcode for errcodes in module._GROUPS.values() for errcode in errcodes]
    assert len(numbers) == len(set(numbers)) == len(table_of(platform).actions)


@pytest.mark.parametrize(
    ("platform", "errcode", "context", "action"),
    [
        ("wecom", 40001, None, Action.refresh_token),
        ("wecom", 40001, "token", Action.operator),
        ("wecom", 42007, None, Action.refresh_token),
        ("wecom", 60020, None, Action.operator),
        ("wecom", 42014, None, Action.degrade),
        ("wecom", 42014, "repeat", Action.ok),
        ("wecom", 60140, "repeat", Action.ok),
        ("wecom", 60140, "card_update", Action.ok),
        ("wecom", 48002, None, Action.operator),
        ("mp", 48002, None, Action.target_fault),
        ("mp", 48001, None, Action.switch_to_pull),
        ("mp", 45015, None, Action.park),
        ("mp", 45047, None, Action.park),
        ("wecom", 95001, None, Action.park),
        ("wecom", 81013, None, Action.target_fault),
        ("wecom", -7, None, Action.retry),
        ("wecom", 123456, None, Action.dead),
        ("mp", None, None, Action.retry),
    ],
)
def test_the_numbers_that_decide(platform: str, errcode: int | None, context: Any, action: Action) -> None:
    assert action_for(platform, errcode, context) is action


def test_an_unknown_number_is_known_to_be_unknown() -> None:
    assert not is_known("wecom", 123456)


def test_a_quota_ends_after_a_minute_or_at_midnight_in_shanghai() -> None:
    clock = FixedClock(1_700_000_000_000)  # 2023-11-15 06:13:20 Shanghai
    assert pause_until_ms("wecom", 45009, clock) == clock.now_ms() + 60_000
    assert pause_until_ms("mp", 45011, clock) == clock.now_ms() + 60_000
    assert clock.local(pause_until_ms("mp", 45009, clock)).isoformat() == "2023-11-16T00:00:00+08:00"


@pytest.mark.parametrize(
    ("errmsg", "ip"),
    [
        ("not allow to access from your ip, hint: [17], from ip: 203.0.113.7, more info at https://x/?e=60020", "203.0.113.7"),
        ("invalid ip 203.0.113.7 ipv6 ::ffff:203.0.113.7, not in whitelist rid: 65f3", "203.0.113.7"),
        ("system busy", None),
    ],
)
def test_the_alert_can_name_our_address(errmsg: str, ip: str | None) -> None:
    assert egress_ip(errmsg) == ip


def test_the_operator_is_told_which_address_to_allow() -> None:
    hint = operator_hint("mp", 40164, "invalid ip 203.0.113.7 ipv6 ::ffff:203.0.113.7, not in whitelist")
    assert hint == "请把出口 IP 203.0.113.7 加到公众平台的「IP 白名单」。"


def test_a_failed_call_carries_its_action() -> None:
    error = PlatformError("gettoken failed", platform="wecom", errcode=40013, context="token")
    assert error.action is Action.operator
    assert not error.retryable
    assert stale_media("wecom", 40007)
    assert not stale_media("wecom", 40008)
