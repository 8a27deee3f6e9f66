"""Opens the larger parts a process is composed of: platforms, assistant with its tools, delivery, callbacks, routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.clock import Clock
from config.database import Database
from config.errors import YizhanError
from config.logging import get_logger, log
from config.schema import Settings
from gateway.account_state import note_url_verified
from gateway.alerts import Alerts
from gateway.callback import CallbackHandler
from gateway.channel import Channel
from gateway.channels import Channels, open_channels, open_session
from gateway.delivery import Delivery
from gateway.delivery_outcome import Alert
from gateway.queue import RedisBell
from gateway.throttle import Throttle

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web

    from agent.ports import GatewayOps
    from agent.services import AgentServices, FetchMedia
    from gateway.capabilities import Capabilities
    from gateway.dispatch import Dispatcher
    from gateway.outbox import SqlOutbox
    from gateway.services import Handler, Services
    from tools.actions import Executor
    from tools.ports import Platform

_logger = get_logger(__name__)


class AlertRelay:
    """Passes trouble with tokens and clocks on to the operators; filled in once the outbox exists."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._alerts: Alerts | None = None
        self._bell: RedisBell | None = None
        self._telling: set[asyncio.Task[None]] = set()

    def connect(self, database: Database, alerts: Alerts, bell: RedisBell) -> None:
        """From now on alerts are stored."""
        self._database, self._alerts, self._bell = database, alerts, bell

    def __call__(self, account_id: str, code: str, detail: str) -> None:
        """gateway.tokens.AlertHook, gateway.callback.TellOperators."""
        log(_logger, "account.trouble", logging.WARNING, account=account_id, code=code)
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
    from tools.assembly import open_tools

    platform = platform_port(platforms, clock)
    tools = open_tools(settings, clock, database, outbox, capabilities.of, platform)
    agent = AgentServices(
        settings=settings,
        clock=clock,
        database=database,
        outbox=outbox,
        bell=bell,
        ops=ops,
        router=Router(settings, clock),
        registry=tools.registry,
        confirm=tools.confirm,
        fetch_media=media_fetcher(settings, platforms, clock),
        platform=platform,
    )
    return agent, tools.executor


def open_delivery(services: Services) -> Delivery:
    """Delivery of this process."""
    alerts = open_alerts(services)
    throttle = Throttle(services.bell.redis, services.clock)
    return Delivery(services.database, services.channels, services.outbox, services.clock, services.bell, throttle, alerts)


def open_alerts(services: Services) -> Alerts:
    """What tells operators of trouble; trouble with tokens is told from now on too."""
    alerts = Alerts(services.outbox, services.channels, services.settings.tenants, services.clock)
    services.platforms.alerts.connect(services.database, alerts, services.bell)
    return alerts


def open_callbacks(
    platforms: Platforms, dispatcher: Dispatcher, database: Database, clock: Clock, settings: Settings
) -> CallbackHandler:
    """The handler of callback requests; operators hear of callbacks from another time, ``connect`` of a verified URL."""
    remembering: set[asyncio.Task[None]] = set()

    def url_verified(account_id: str) -> None:
        task = asyncio.get_running_loop().create_task(remember(account_id))
        remembering.add(task)
        task.add_done_callback(remembering.discard)

    async def remember(account_id: str) -> None:
        tenant_id = platforms.channels[account_id].tenant_id
        try:
            await database.write(lambda c: note_url_verified(c, account_id, tenant_id, clock.now_ms()))
        except YizhanError as error:
            log(_logger, "callback.note_failed", logging.WARNING, account=account_id, code=error.code)

    return CallbackHandler(platforms.channels, dispatcher, clock, settings.callback_max_age_s, platforms.alerts, url_verified)


def public_routes(services: Services) -> Sequence[tuple[str, Handler]]:
    """Pages beside the callbacks: signed links to to-dos."""
    from aiohttp import web

    from tools.builtin.todo import gone_page, todo_page

    async def page(request: web.Request) -> web.StreamResponse:
        """One to-do, for whoever holds its link; a wrong or expired token looks like nothing there (N-24)."""
        html = await todo_page(services.database, services.clock, request.match_info["token"])
        if html is None:
            return web.Response(status=404, text=gone_page(), content_type="text/html", headers=_PAGE_HEADERS)
        return web.Response(text=html, content_type="text/html", headers=_PAGE_HEADERS)

    return [("/t/{token}", page)]


def admin_routes(services: Services) -> Sequence[Callable[[web.Application], None]]:
    """Functions that add the push API to the admin application."""
    from gateway.push_api import open_push_api

    api = open_push_api(
        services.database,
        services.outbox,
        services.channels,
        services.bell,
        services.bell.redis,
        services.clock,
        services.settings.data_dir,
    )
    return [api.add_routes]


_PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}


def platform_port(platforms: Platforms, clock: Clock) -> Platform:
    """Directory and approvals of the accounts, for the tools."""
    from gateway.directory import Directory

    return Directory(platforms.opened.clients, clock)


def media_fetcher(settings: Settings, platforms: Platforms, clock: Clock) -> FetchMedia:
    """Downloads what people sent (N-20, N-21)."""
    from gateway.media import MediaStore, egress_for, fetcher

    egress = egress_for(allow_loopback=settings.demo)
    store = MediaStore(settings.data_dir, settings.media, clock, platforms.opened.tokens, egress)
    return fetcher(store, platforms.opened.clients)
