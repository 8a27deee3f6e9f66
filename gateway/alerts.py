"""Tells operators of trouble, once per kind and account an hour: in their chats and, since the app itself may be what is
broken, through the tenant's group robot."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from config.clock import Clock
from config.logging import get_logger, log
from config.ports import Draft, Outbox
from config.schema import Tenant
from gateway import texts
from gateway.account_state import add_note, notes_of
from gateway.channel import ALERT_ROBOT, Channel
from gateway.delivery_outcome import Alert
from memory.keys import conversation_id

_HOUR_MS = 3_600_000
_KEEP_MS = 24 * _HOUR_MS
_logger = get_logger(__name__)


class Alerts:
    """Stores alerts as outbox rows with cause ``notice``, inside the caller's transaction."""

    def __init__(self, outbox: Outbox, channels: Mapping[str, Channel], tenants: Sequence[Tenant], clock: Clock) -> None:
        self._outbox = outbox
        self._channels = channels
        self._tenants = {tenant.id: tenant for tenant in tenants}
        self._clock = clock

    def tell(self, connection: Connection, account_id: str, alert: Alert) -> bool:
        """Alert the operators of the account's tenant; False when they were told of this within the hour."""
        channel = self._channels.get(account_id)
        tenant = self._tenants.get(channel.tenant_id) if channel is not None else None
        if tenant is None:
            return False
        told = notes_of(connection, account_id).get("alerts") or {}
        now = self._clock.now_ms()
        if now - int(told.get(alert.kind, 0)) < _HOUR_MS:
            return False
        told = {kind: moment for kind, moment in told.items() if now - moment < _HOUR_MS} | {alert.kind: now}
        add_note(connection, account_id, tenant.id, "alerts", told)
        log(_logger, "alert.raised", logging.WARNING, account=account_id, kind=alert.kind)
        text = texts.ALERT.format(account=account_id, text=alert.text)
        key = f"alert:{account_id}:{alert.kind}:{now // _HOUR_MS}"  # the same for two processes that see it at once
        for person in tenant.operators:
            if person.account in self._channels:
                self._put(connection, tenant.id, person.account, person.user, key, text)
        if tenant.alert_webhook is not None:
            self._put_robot(connection, tenant, account_id, key, text)
        return True

    def _put(self, connection: Connection, tenant_id: str, account_id: str, user: str, key: str, text: str) -> None:
        platform = self._channels[account_id].platform
        where = conversation_id(tenant_id, account_id, "single", user.lower() if platform == "wecom" else user)
        self._outbox.put(connection, self._draft(f"{key}:{account_id}:{user}", tenant_id, account_id, where, user, text))

    def _put_robot(self, connection: Connection, tenant: Tenant, account_id: str, key: str, text: str) -> None:
        wecom = [
            name for name, channel in self._channels.items() if channel.tenant_id == tenant.id and channel.platform == "wecom"
        ]
        through = account_id if account_id in wecom else next(iter(wecom), account_id)
        where = "r" + hashlib.sha256(f"{tenant.id}:{ALERT_ROBOT}".encode()).hexdigest()[:31]
        draft = self._draft(f"{key}:robot", tenant.id, through, where, ALERT_ROBOT, text, robot=True)
        self._outbox.put(connection, draft)

    def _draft(
        self, key: str, tenant_id: str, account_id: str, conversation: str, user: str, text: str, *, robot: bool = False
    ) -> Draft:
        return Draft(
            idempotency_key=key,
            tenant_id=tenant_id,
            account_id=account_id,
            conversation_id=conversation,
            user_id=user,
            session_id=None,
            cause="notice",
            cause_id="alert",
            text=text,
            target={"webhook": ALERT_ROBOT} if robot else None,
            expires_at_ms=self._clock.now_ms() + _KEEP_MS,
        )
