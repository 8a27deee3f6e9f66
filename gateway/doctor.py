"""Self-diagnosis: every account end to end, and ourselves; the same report for ``yizhan doctor`` and for 「诊断」."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp

from agent.protocol import Reply, TurnResult
from config.clock import Clock
from config.database import Database
from config.errors import YizhanError
from config.schema import Settings
from gateway.account_state import AccountView, read_account
from gateway.channels import open_session
from gateway.doctor_account import Account, Platform, check_platform, check_settings, check_state
from gateway.doctor_callback import check_callback, check_clock
from gateway.doctor_report import Finding, Report
from gateway.doctor_system import check_database, check_gateway, check_messages, check_models, check_queues, own_database_id
from gateway.queue import WORK_QUEUES

if TYPE_CHECKING:
    import redis.asyncio as aredis

    from agent.ports import StopSignal
    from gateway.services import Services


async def examine(
    settings: Settings,
    database: Database,
    redis: aredis.Redis,
    clock: Clock,
    *,
    tenants: Sequence[str] | None = None,
    accounts: Sequence[str] | None = None,
    warnings: Sequence[str] = (),
    public_url: str | None = None,
) -> Report:
    """Look at everything, or at some tenants or accounts only. Never raises for what it finds; takes seconds, not minutes.

    ``warnings`` are what the settings loader had to correct; ``public_url`` replaces the settings' own for this look.
    """
    wanted = tuple(tenants if tenants is not None else (tenant.id for tenant in settings.tenants))
    looked_at = [
        account
        for tenant in settings.tenants
        if tenant.id in wanted
        for account in tenant.accounts
        if accounts is None or account.id in accounts
    ]
    async with open_session() as session:
        own = await _ourselves(settings, database, redis, clock, session, wanted, looked_at, public_url)
        has_tables = any(finding.check == "database" and finding.level == "ok" for finding in own)
        jobs = [_account(settings, a, database if has_tables else None, clock, session, warnings, public_url) for a in looked_at]
        found = await asyncio.gather(*jobs)
    return Report((*own, *(finding for findings in found for finding in findings)))


async def report_job(services: Services, job: Mapping[str, Any], stop: StopSignal) -> TurnResult:
    """The job behind 「诊断」: the report about the asking person's own company, as text."""
    looking = asyncio.ensure_future(
        examine(services.settings, services.database, services.bell.redis, services.clock, tenants=(job["tenant_id"],))
    )
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not looking.done():
        looking.cancel()
        return TurnResult(outcome="stopped")
    return TurnResult(replies=(Reply(looking.result().for_chat()),))


async def _ourselves(
    settings: Settings,
    database: Database,
    redis: aredis.Redis,
    clock: Clock,
    session: aiohttp.ClientSession,
    tenants: tuple[str, ...],
    accounts: Sequence[Account],
    public_url: str | None,
) -> list[Finding]:
    found = [await check_database(database)]
    found += await check_queues(redis, WORK_QUEUES)
    found.append(await check_gateway(settings, session, await own_database_id(database)))
    if found[0].level == "ok":
        found += await database.read(lambda c: check_messages(c, clock, tenants))
    bases = dict.fromkeys(Platform.open(account, session, clock).base for account in accounts)
    told = await check_clock(settings, session, (*bases, *((public_url,) if public_url else ())))
    return [*found, *([told] if told else []), check_models(settings)]


async def _account(
    settings: Settings,
    account: Account,
    database: Database | None,
    clock: Clock,
    session: aiohttp.ClientSession,
    warnings: Sequence[str],
    public_url: str | None,
) -> list[Finding]:
    found = list(check_settings(account, warnings))
    if not _failed(found):
        found += await check_platform(Platform.open(account, session, clock))
    reached = not _failed(found)
    found.append(await check_callback(settings, account, session, public_url))
    state = AccountView()
    if database is not None:
        try:
            state = await database.read(lambda c: read_account(c, account.id))
        except YizhanError:
            return found  # the database's own finding says why
    return [*found, *check_state(account, state, clock, reached=reached)]


def _failed(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "fail" for finding in findings)
