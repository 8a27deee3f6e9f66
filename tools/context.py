"""Makes tool contexts: who calls, from where, with which rights; also for an action that runs long after its turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from config.clock import Clock
from config.database import Database
from config.errors import NotFound
from config.ports import Outbox
from config.schema import Settings
from memory.keys import person_key
from tools.base import Capability, ToolContext
from tools.policy import roles_of
from tools.ports import NoPlatform, Platform


@dataclass(frozen=True, slots=True)
class Place:
    """Where and for whom: the ids a context is made of."""

    tenant_id: str
    account_id: str
    conversation_id: str
    session_id: str
    user_id: str
    id_type: str


@dataclass(frozen=True, slots=True)
class Contexts:
    """The source of contexts of one process."""

    settings: Settings
    clock: Clock
    database: Database
    outbox: Outbox
    capability_of: Callable[[str], Capability]
    platform: Platform = field(default_factory=NoPlatform)

    def of(
        self,
        place: Place,
        *,
        capability: Capability | None = None,
        call_key: str = "",
        turn_id: str | None = None,
        inbound_seq: int | None = None,
        turn_fence: int | None = None,
    ) -> ToolContext:
        """The context of one call or turn. Raises NotFound for a tenant the settings do not know."""
        tenant = self.settings.tenant(place.tenant_id)
        if tenant is None or all(account.id != place.account_id for account in tenant.accounts):
            raise NotFound("no such tenant and account")
        kind: Literal["user", "customer"] = "user" if place.id_type == "wecom_userid" else "customer"
        return ToolContext(
            tenant=tenant,
            account_id=place.account_id,
            conversation_id=place.conversation_id,
            session_id=place.session_id,
            user_id=person_key(place.id_type, place.user_id),
            id_type=place.id_type,
            subject_kind=kind,
            roles=roles_of(self.settings, tenant, place.account_id, place.user_id, kind),
            capability=capability or self.capability_of(place.account_id),
            clock=self.clock,
            database=self.database,
            outbox=self.outbox,
            settings=self.settings,
            platform=self.platform,
            call_key=call_key,
            turn_id=turn_id,
            inbound_seq=inbound_seq,
            turn_fence=turn_fence,
        )
