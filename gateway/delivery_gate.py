"""What is known before a call: whether a due row may go now, or must expire, wait or be parked without bothering the platform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from gateway.account_state import AccountView, read_account
from gateway.channel import Channel
from gateway.outbox import NO_ACCOUNT, SqlOutbox
from gateway.outbox_claims import Hold
from gateway.throttle import window_closed


class SendGate:
    """Decides for the rows of one claim transaction; account states are read once in it."""

    def __init__(self, outbox: SqlOutbox, channels: Mapping[str, Channel], now_ms: int) -> None:
        self._outbox = outbox
        self._channels = channels
        self._now_ms = now_ms
        self._views: dict[str, AccountView] = {}

    def __call__(self, connection: Connection, row: Mapping[str, Any]) -> Hold | None:
        """None lets the row go."""
        expires_at = row["expires_at_ms"]
        if expires_at is not None and expires_at <= self._now_ms:
            return Hold("expired", {"next_attempt_at_ms": None}, with_group=True)
        channel = self._channels.get(row["account_id"])
        if channel is None:
            values = {"errmsg": NO_ACCOUNT, "next_attempt_at_ms": None}
            return Hold("dead", values, with_group=True)
        if row["payload"] is None:
            return Hold("expired", {"errmsg": "the body was removed (retention)", "next_attempt_at_ms": None})
        if (row["target"] or {}).get("webhook") is not None:
            return None
        return self._account_hold(connection, row) or self._person_hold(connection, row, channel)

    def _account_hold(self, connection: Connection, row: Mapping[str, Any]) -> Hold | None:
        view = self._views.get(row["account_id"])
        if view is None:
            view = self._views[row["account_id"]] = read_account(connection, row["account_id"])
        if view.trouble is not None:
            return self._parked(row, "operator")
        if view.paused_until_ms is not None and view.paused_until_ms > self._now_ms:
            return Hold("pending", {"next_attempt_at_ms": view.paused_until_ms})
        return None

    def _person_hold(self, connection: Connection, row: Mapping[str, Any], channel: Channel) -> Hold | None:
        if channel.platform != "mp" or row["kind"] == "template":
            return None
        if not self._outbox.can_push(connection, row["account_id"], row["kind"]):
            return self._parked(row, "pull")
        if window_closed(connection, row["conversation_id"], self._now_ms):
            return self._parked(row, "window")
        return None

    def _parked(self, row: Mapping[str, Any], reason: str) -> Hold:
        values = {"park_reason": reason, "next_attempt_at_ms": self._outbox.park_until(row["expires_at_ms"])}
        return Hold("parked", values, with_group=True)
