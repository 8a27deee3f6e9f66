"""Which events of the log are counted, and as what: one table for gateways and workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Count:
    """Events with this ``action`` as a Prometheus counter; ``label`` is named after ``field`` of the event unless it says
    otherwise. Labels hold names from closed sets, never an id (gateway.md §9)."""

    action: str
    name: str
    text: str
    label: str | None = None
    field: str | None = None

    def labels(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """The label's value for one event; empty where there is no label."""
        return () if self.label is None else (str(fields.get(self.field or self.label) or "none"),)


COUNTS = (
    Count("inbound.stored", "inbound", "First-seen messages, by kind", "kind"),
    Count("inbound.duplicate", "inbound_duplicates", "Redeliveries"),
    Count("callback.rejected", "callbacks_rejected", "Refused callbacks, by code", "code"),
    Count("callback.stale", "callbacks_stale", "Signed callbacks from another time"),
    Count("turn.deferred", "turns_deferred", "Callbacks acknowledged before their answer was there"),
    Count("turn.stored", "turns", "Turns by outcome", "outcome"),
    Count("turn.failed", "turn_failures", "Failed attempts of turns, by code", "code"),
    Count("outbox.sent", "sends", "Parts that went out, by way", "via"),
    Count("outbox.failed", "send_failures", "Failed sends, by action taken", "action", "treatment"),
    Count("token.refreshed", "token_refreshes", "access_token fetches"),
    Count("token.failed", "token_failures", "Failed access_token fetches"),
    Count("redis.away", "redis_away", "Times Redis was found away"),
)
