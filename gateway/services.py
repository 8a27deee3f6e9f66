"""What one process of the gateway is made of; built by gateway.app, used by routes, jobs, the worker and the reaper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from config.clock import Clock
from config.database import Database
from config.schema import Settings

if TYPE_CHECKING:
    from agent.services import AgentServices
    from gateway.callback import CallbackHandler
    from gateway.capabilities import Capabilities
    from gateway.channel import Channel
    from gateway.delivery import Delivery
    from gateway.dispatch import Dispatcher
    from gateway.fast import FastLane
    from gateway.outbox import SqlOutbox
    from gateway.parts import Platforms
    from gateway.queue import RedisBell
    from gateway.turns import TurnRunner
    from tools.actions import Executor

Handler = Callable[[Any], Awaitable[Any]]


@dataclass(slots=True)
class Services:
    """The parts of one process. ``owner`` names it in leases; ``channels`` are keyed by account id."""

    owner: str
    settings: Settings
    clock: Clock
    database: Database
    bell: RedisBell
    channels: Mapping[str, Channel]
    outbox: SqlOutbox
    capabilities: Capabilities
    agent: AgentServices
    runner: TurnRunner
    fast: FastLane
    dispatcher: Dispatcher
    callbacks: CallbackHandler
    executor: Executor
    platforms: Platforms
    delivery: Delivery | None = None
    public_routes: Sequence[tuple[str, Handler]] = ()
    """GET pages beside the callbacks: (path, handler)."""
    admin_routes: Sequence[Callable[[Any], None]] = ()
    """Functions that add routes to the admin application."""
