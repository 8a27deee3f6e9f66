"""Puts the tools of one process together: the builtin ones, those declared in YAML, their confirmations and executor."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from config.clock import Clock
from config.database import Database
from config.ports import Outbox
from config.schema import Settings, Tenant
from tools import builtin
from tools.actions import Executor
from tools.base import Capability, Tool
from tools.confirm import Confirmations
from tools.context import Contexts
from tools.ports import NoPlatform, Platform
from tools.proposals import Proposals
from tools.registry import Registry


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of one process."""

    registry: Registry
    confirm: Confirmations
    executor: Executor
    contexts: Contexts


def open_tools(
    settings: Settings,
    clock: Clock,
    database: Database,
    outbox: Outbox,
    capability_of: Callable[[str], Capability],
    platform: Platform | None = None,
    extra: Iterable[Tool] = (),
) -> ToolSet:
    """Assemble everything. Raises SchemaError for a tool whose parameters cannot be checked, naming it."""
    contexts = Contexts(settings, clock, database, outbox, capability_of, platform or NoPlatform())
    proposals = Proposals(database, clock, settings.limits)
    own = {tenant.id: tenant_tools(settings, tenant) for tenant in settings.tenants}
    registry = Registry([*builtin_tools(), *extra], proposals, for_tenant=own)
    confirm = Confirmations(database, outbox, clock, registry, proposals, contexts)
    return ToolSet(registry, confirm, Executor(database, outbox, clock, registry, contexts), contexts)


def builtin_tools() -> list[Tool]:
    """Every ``Tool`` found at the top of a module of tools/builtin: a new file there is all a new tool needs."""
    found: dict[str, Tool] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(builtin.__path__)):
        loaded = importlib.import_module(f"{builtin.__name__}.{module}")
        for value in vars(loaded).values():
            if isinstance(value, Tool):
                found.setdefault(value.name, value)
    return list(found.values())


def tenant_tools(settings: Settings, tenant: Tenant) -> list[Tool]:
    """The tools a tenant's settings declare: scripts, hosts, logs and HTTP systems."""
    found: list[Tool] = []
    for module in sorted(info.name for info in pkgutil.iter_modules(builtin.__path__)):
        build = getattr(importlib.import_module(f"{builtin.__name__}.{module}"), "build", None)
        if build is not None:
            found.extend(build(settings, tenant))
    return found
