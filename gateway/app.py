"""The composition root: settings become the services of one process, and the services become two web sites."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from config.clock import Clock
from config.database import open_database
from config.ids import new_id
from config.logging import get_logger, log
from config.schema import Listen, Settings
from gateway.background import Background
from gateway.embedded import redis_url_of
from gateway.ports import port_error
from gateway.queue import RedisBell
from gateway.services import Services

_logger = get_logger(__name__)
_GRACE_S = 5.0
_CLOSE_S = 7.5
_LAST_S = 1.6


async def build(settings: Settings) -> Services:
    """Open everything one process needs. The database must be migrated already; Redis may be away."""
    from gateway.capabilities import Capabilities
    from gateway.conversation_ops import ConversationOps
    from gateway.dispatch import Dispatcher
    from gateway.fast import FastLane
    from gateway.inbox import Inbox
    from gateway.outbox import SqlOutbox
    from gateway.parts import open_agent, open_callbacks, open_platforms
    from gateway.turns import TurnRunner
    from gateway.waiters import Waiters

    owner, clock = new_id("p"), Clock(settings.test_clock)
    database = open_database(settings.sqlalchemy_url)
    bell = RedisBell(redis_url_of(settings))
    platforms = open_platforms(settings, clock, bell)
    channels = platforms.channels
    outbox = SqlOutbox(channels, clock, settings.limits)
    capabilities = Capabilities(database, channels, clock)
    running: dict[str, TurnRunner] = {}
    ops = ConversationOps(database, capabilities, clock, lambda conversation: running["turns"].stop_local(conversation))
    agent, executor = open_agent(settings, clock, database, outbox, bell, ops, capabilities, platforms)
    waiters = Waiters()
    runner = running["turns"] = TurnRunner(agent, outbox, capabilities, waiters, owner)
    fast = FastLane(agent, outbox, capabilities, waiters, runner, executor)
    inbox = Inbox(database, outbox, clock, settings.limits)
    dispatcher = Dispatcher(database, inbox, outbox, capabilities, waiters, runner, fast)
    return Services(
        owner=owner,
        settings=settings,
        clock=clock,
        database=database,
        bell=bell,
        channels=channels,
        outbox=outbox,
        capabilities=capabilities,
        agent=agent,
        runner=runner,
        fast=fast,
        dispatcher=dispatcher,
        callbacks=open_callbacks(platforms, dispatcher, database, clock, settings),
        executor=executor,
        platforms=platforms,
    )


def preload() -> None:
    """Load the modules a gateway needs, before there is anything to open."""
    for name in ("capabilities", "dispatch", "metrics", "parts", "reaper", "retention", "routes"):
        importlib.import_module(f"gateway.{name}")
    importlib.import_module("tools.assembly")


async def close(services: Services) -> None:
    """Close connections, in the order of dependence; never hangs, whichever of them does: about two seconds in all."""
    end = time.monotonic() + _LAST_S
    for closing in (services.platforms.close(), services.bell.close(), services.database.close()):
        try:
            await asyncio.wait_for(closing, max(0.2, end - time.monotonic()))
        except Exception as error:  # noqa: BLE001 -- the process ends anyway; say it and go on closing
            log(_logger, "close.failed", logging.WARNING, error=error)


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """The gateway process: both sites, delivery, reaper, until ``stop``; then refuse, finish or release, within 8 s.

    Raises SettingsError when a port is taken.
    """
    from agent.warm import warm
    from gateway.metrics import Metrics
    from gateway.routes import admin_app, public_app

    started = time.monotonic()
    services = await build(settings)
    background = Background(stop)
    runners: list[web.AppRunner] = []
    try:
        metrics = Metrics()
        add_routes(services)
        for app, listen, name in (
            (public_app(services, metrics), settings.http, "http"),
            (admin_app(services, metrics), settings.admin, "admin"),
        ):
            runners.append(await _listen(app, listen, name))
        await services.capabilities.refresh()
        warming = asyncio.create_task(warm(services.agent))
        for part in serving_parts(services):
            background.start(part)
        gc.collect()
        gc.freeze()
        log(_logger, "serve.ready", http_port=settings.http.port, took_ms=int((time.monotonic() - started) * 1000))
        await stop.wait()
        warming.cancel()
    finally:
        stopping = time.monotonic()
        stop.set()
        await _wind_down(services, runners, background)
        await close(services)
        log(_logger, "serve.stopped", took_ms=int((time.monotonic() - stopping) * 1000))


def serving_parts(services: Services) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
    """What a gateway does beside answering: delivery, probing capabilities, reaping, retention."""
    from gateway.parts import open_delivery
    from gateway.reaper import Reaper
    from gateway.retention import RetentionPass

    services.delivery = open_delivery(services)
    reaper, retention = Reaper(services), RetentionPass(services)
    return [services.delivery.run, services.capabilities.run, reaper.run, reaper.run_reminders, retention.run]


def add_routes(services: Services) -> None:
    """Register the pages and APIs that other modules bring."""
    from gateway.parts import admin_routes, public_routes

    services.public_routes = public_routes(services)
    services.admin_routes = admin_routes(services)


async def _listen(app: web.Application, listen: Listen, name: str) -> web.AppRunner:
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=_GRACE_S, keepalive_timeout=75, lingering_time=0.5
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, listen.host, listen.port, backlog=1024).start()
    except OSError as error:
        await runner.cleanup()
        raise port_error(name, listen, error) from None
    return runner


async def _wind_down(services: Services, runners: list[web.AppRunner], background: Background) -> None:
    """Refuse new connections, let answers go out, give back what does not finish; all within ``_CLOSE_S``."""
    for runner in runners:
        for site in list(runner.sites):
            await site.stop()
    work = [services.runner.close(_GRACE_S), services.fast.close(_GRACE_S), *(runner.cleanup() for runner in runners)]
    try:
        async with asyncio.timeout(_CLOSE_S):
            await asyncio.gather(*work, background.end(_CLOSE_S - 0.5), return_exceptions=True)
    except TimeoutError:
        log(_logger, "serve.stop_cut", logging.WARNING)
