"""Everything a turn may use, handed in by the composition root."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.ports import GatewayOps
from agent.protocol import Attachment, InboundMessage
from config.clock import Clock
from config.database import Database
from config.ports import Bell, Outbox
from config.schema import Settings
from tools.ports import NoPlatform, Platform

if TYPE_CHECKING:
    from agent.llm.router import Router
    from tools.confirm import Confirmations
    from tools.registry import Registry

FetchMedia = Callable[[InboundMessage, Attachment], Awaitable[tuple[str, bytes]]]
"""Downloads one attachment of a message: file name (with extension) and bytes. Raises YizhanError."""


@dataclass(frozen=True, slots=True)
class AgentServices:
    """The services of one process. ``fetch_media`` is None where nobody can download (voice is then never transcribed)."""

    settings: Settings
    clock: Clock
    database: Database
    outbox: Outbox
    bell: Bell
    ops: GatewayOps
    router: Router
    registry: Registry
    confirm: Confirmations
    fetch_media: FetchMedia | None = None
    platform: Platform = field(default_factory=NoPlatform)
