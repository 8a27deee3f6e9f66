"""Opens the larger parts a process is composed of: platforms, assistant with its tools, delivery, callbacks, routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.logging import get_logger, log
from config.schema import Settings
from gateway.alerts import Alerts
from gateway.callback import CallbackHandler
from gateway.channel import Channel
from gateway.channels import Channels, open_channels, open_session
from gateway.delivery import Delivery
from gateway.delivery_outcome import Alert
from gateway.models import Lease
from gateway.queue import RedisBell
from gateway.throttle import Throttle

if TYPE_CHECKING:
    import aiohttp

    from agent.ports import GatewayOps
    from agent.services import AgentServices
    from gateway.capabilities import Capabilities
    from gateway.dispatch import Dispatcher
    from gateway.outbox import SqlOutbox
    from gateway.services import Handler, Services
    from tools.actions import Executor

LEASE = table_of(Lease)
_logger = get_logger(__name__)


class AlertRelay:
    """Passes trouble with tokens on to the operators; filled in once the outbox exists."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._alerts: Alerts | None = None
        self._bell: RedisBell | None = None
        self._telling: set[asyncio.Task[None]] = set()

    def connect(self, database: Database, alerts: Alerts, bell: RedisBell) -> None:
        """From now on alerts are stored."""
        self._database, self._alerts, self._bell = database, alerts, bell

    def __call__(self, account_id: str, code: str, detail: str) -> None:
        """gateway.tokens.AlertHook."""
        log(_logger, "token.trouble", logging.WARNING, account=account_id, code=code)
        task = asyncio.get_running_loop().create_task(self._tell(account_id, Alert(code, detail)))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, account_id: str, alert: Alert) -> None:
        database, alerts, bell = self._database, self._alerts, self._bell
        if database is None or alerts is None or bell is None:
            return
        try:
            told = await database.write(lambda connection: alerts.tell(connection, account_id, alert))
        except Exception as error:  # noqa: BLE001 -- the boundary of a background task
            log(_logger, "alert.not_stored", logging.WARNING, account=account_id, error=error)
            return
        if told:
            await bell.ring("outbox", account_id)


@dataclass(frozen=True, slots=True)
class Platforms:
    """Channels, API clients and tokens of all accounts, on one HTTP session."""

    session: aiohttp.ClientSession
    opened: Channels
    alerts: AlertRelay

    @property
    def channels(self) -> Mapping[str, Channel]:
        """Channels by account id."""
        return self.opened.by_account

    async def close(self) -> None:
        """Close the HTTP session."""
        await self.session.close()


def open_platforms(settings: Settings, clock: Clock, bell: RedisBell) -> Platforms:
    """Open every account's channel. Call it on the running loop; nothing is sent."""
    session, alerts = open_session(), AlertRelay()
    return Platforms(session, open_channels(settings, session, bell.redis, clock, on_alert=alerts), alerts)


def open_agent(
    settings: Settings,
    clock: Clock,
    database: Database,
    outbox: SqlOutbox,
    bell: RedisBell,
    ops: GatewayOps,
    capabilities: Capabilities,
    platforms: Platforms,
) -> tuple[AgentServices, Executor]:
    """The assistant's services, and the executor of confirmed actions."""
    from agent.llm.router import Router
    from agent.services import AgentServices
    from tools.actions import Executor
    from tools.confirm import Confirmations
    from tools.context import Contexts
    from tools.proposals import Proposals

    platform = _platform_port(platforms)
    contexts = Contexts(settings, clock, database, outbox, capabilities.of, platform)
    proposals = Proposals(database, clock, settings.limits)
    registry = _registry(settings, proposals, platforms)
    confirm = Confirmations(database, outbox, clock, registry, proposals, contexts)
    agent = AgentServices(
        settings=settings,
        clock=clock,
        database=database,
        outbox=outbox,
        bell=bell,
        ops=ops,
        router=Router(settings, clock),
        registry=registry,
        confirm=confirm,
        fetch_media=_fetch_media(settings, platforms),
        platform=platform,
    )
    return agent, Executor(database, outbox, clock, registry, contexts)


def open_delivery(services: Services) -> Delivery:
    """Delivery of this process; alerts about tokens are stored from now on too."""
    alerts = Alerts(services.outbox, services.channels, services.settings.tenants, services.clock)
    services.platforms.alerts.connect(services.database, alerts, services.bell)
    throttle = Throttle(services.bell.redis, services.clock)
    return Delivery(services.database, services.channels, services.outbox, services.clock, services.bell, throttle, alerts)


def open_callbacks(channels: Mapping[str, Channel], dispatcher: Dispatcher, clock: Clock, settings: Settings) -> CallbackHandler:
    """The handler of callback requests."""
    return CallbackHandler(channels, dispatcher, clock, settings.callback_max_age_s)


def public_routes(services: Services) -> Sequence[tuple[str, Handler]]:
    """Pages beside the callbacks: signed links."""
    del services
    return ()


def admin_routes(services: Services) -> Sequence[Any]:
    """Functions that add the API to the admin application."""
    del services
    return ()


def _platform_port(platforms: Platforms) -> Any:
    from tools.ports import NoPlatform

    del platforms
    return NoPlatform()


def _registry(settings: Settings, proposals: Any, platforms: Platforms) -> Any:
    from tools.registry import Registry

    del settings, platforms
    return Registry([], proposals)


def _fetch_media(settings: Settings, platforms: Platforms) -> Any:
    del settings, platforms
    return None
