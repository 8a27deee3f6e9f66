"""The doctor's look at ourselves: database, Redis, gateway, workers, the oldest unanswered message, the outbox."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

import aiohttp
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.errors import DatabaseBusy
from config.schema import Settings
from gateway import operator_texts as texts
from gateway.doctor_report import Finding, Level
from gateway.health import database_id
from gateway.migrate import damage
from gateway.models import Inbound, OutboxMessage
from gateway.ports import address
from gateway.queue import ALIVE_PREFIX
from gateway.texts import OUTBOX_STATES

if TYPE_CHECKING:
    import redis.asyncio as aredis

_INBOUND, _OUTBOX = table_of(Inbound), table_of(OutboxMessage)
_WAIT_WARN_S = 60
_WAIT_FAIL_S = 300
_LATE_S = 60
_DAY_MS = 86_400_000
_TIMEOUT = aiohttp.ClientTimeout(total=4, connect=2)


async def check_database(database: Database) -> Finding:
    """Whether it answers and has been migrated."""
    try:
        has_tables = await database.read(lambda c: c.dialect.has_table(c, "inbound"))
    except (DatabaseBusy, DBAPIError, sqlite3.Error) as error:
        broken = damage(error)
        fix = texts.DATABASE_FIX if broken is None else texts.DATABASE_BROKEN_FIX
        return Finding(texts.SYSTEM, "database", "fail", texts.DATABASE_BAD.format(reason=broken or error), fix)
    if not has_tables:
        return Finding(texts.SYSTEM, "database", "fail", texts.DATABASE_EMPTY, texts.DATABASE_EMPTY_FIX)
    return Finding(texts.SYSTEM, "database", "ok", texts.DATABASE_OK.format(dialect=database.dialect))


async def check_queues(redis: aredis.Redis, queues: tuple[str, ...]) -> list[Finding]:
    """Redis, waiting wake-ups, living workers."""
    try:
        depth = sum([int(await redis.llen(f"rq:queue:{name}")) for name in queues])
        workers = [key async for key in redis.scan_iter(f"{ALIVE_PREFIX}*", count=200)]
    except Exception:  # noqa: BLE001 -- whatever keeps Redis from answering is the finding
        return [Finding(texts.SYSTEM, "redis", "fail", texts.REDIS_BAD, texts.REDIS_FIX)]
    found = [Finding(texts.SYSTEM, "redis", "ok", texts.REDIS_OK.format(depth=depth))]
    if workers:
        return [*found, Finding(texts.SYSTEM, "worker", "ok", texts.WORKER_OK.format(count=len(workers)))]
    return [*found, Finding(texts.SYSTEM, "worker", "fail", texts.WORKER_NONE, texts.WORKER_NONE_FIX)]


async def own_database_id(database: Database) -> str | None:
    """Which database these settings lead to; None when it cannot be read."""
    try:
        return await database.read(database_id)
    except (DatabaseBusy, DBAPIError, sqlite3.Error):
        return None


async def check_gateway(settings: Settings, session: aiohttp.ClientSession, own_id: str | None) -> Finding:
    """Whether a gateway answers on the admin address of these settings, works on the same database, and is ready."""
    url = f"{address(settings.admin)}/readyz"
    try:
        async with session.get(url, timeout=_TIMEOUT) as response:
            status, body = response.status, (await response.text())[:1000]
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return Finding(texts.SYSTEM, "gateway", "fail", texts.GATEWAY_BAD.format(url=url), texts.GATEWAY_FIX)
    its_id = _told_id(body)
    if own_id is not None and its_id is not None and its_id != own_id:
        return Finding(texts.SYSTEM, "gateway", "fail", texts.GATEWAY_OTHER.format(url=url), texts.GATEWAY_OTHER_FIX)
    if status != 200:
        detail = " ".join(body[:200].split()) or f"HTTP {status}"
        return Finding(texts.SYSTEM, "gateway", "warn", texts.GATEWAY_NOT_READY.format(detail=detail), texts.GATEWAY_FIX)
    return Finding(texts.SYSTEM, "gateway", "ok", texts.GATEWAY_OK)


def _told_id(body: str) -> str | None:
    try:
        told = json.loads(body)
    except ValueError:
        return None
    found = told.get("database_id") if isinstance(told, dict) else None
    return found if isinstance(found, str) else None


def check_models(settings: Settings) -> Finding:
    """Which model routes there are."""
    if not settings.models:
        return Finding(texts.SYSTEM, "models", "info", texts.MODEL_NONE)
    names = "、".join(route.name for route in settings.models)
    return Finding(texts.SYSTEM, "models", "ok", texts.MODEL_SOME.format(names=names))


def check_messages(connection: Connection, clock: Clock, tenants: tuple[str, ...]) -> list[Finding]:
    """The oldest unanswered message, and the outbox by state, of these tenants."""
    return [_oldest(connection, clock, tenants), *_outbox(connection, clock, tenants)]


def _oldest(connection: Connection, clock: Clock, tenants: tuple[str, ...]) -> Finding:
    is_open = _INBOUND.c.status.in_(("received", "running")) & _INBOUND.c.tenant_id.in_(tenants)
    count, first = connection.execute(select(func.count(), func.min(_INBOUND.c.seq)).where(is_open)).one()
    if not count:
        return Finding(texts.SYSTEM, "unanswered", "ok", texts.OLDEST_OK)
    received = connection.execute(select(_INBOUND.c.received_at_ms).where(_INBOUND.c.seq == first)).scalar_one()
    age_s = (clock.now_ms() - received) / 1000
    age = texts.duration(age_s)
    if age_s < _WAIT_WARN_S:
        return Finding(texts.SYSTEM, "unanswered", "info", texts.OLDEST_WAITING.format(count=count, age=age))
    level: Level = "fail" if age_s >= _WAIT_FAIL_S else "warn"
    text = texts.OLDEST_BAD.format(count=count, age=age, seq=first)
    return Finding(texts.SYSTEM, "unanswered", level, text, texts.OLDEST_FIX.format(seq=first))


def _outbox(connection: Connection, clock: Clock, tenants: tuple[str, ...]) -> Iterator[Finding]:
    now = clock.now_ms()
    mine = _OUTBOX.c.tenant_id.in_(tenants)
    states = ("passive_reserved", "pending", "sending", "parked", "unknown")
    rows = select(_OUTBOX.c.status, func.count()).where(mine, _OUTBOX.c.status.in_(states)).group_by(_OUTBOX.c.status)
    counts: dict[str, int] = {status: count for status, count in connection.execute(rows)}
    told = "，".join(f"{OUTBOX_STATES[state]} {counts[state]}" for state in states if state in counts)
    text = texts.OUTBOX_OK.format(states=told) if told else texts.OUTBOX_EMPTY
    yield Finding(texts.SYSTEM, "outbox", "ok", text)
    due = mine & (_OUTBOX.c.status == "pending") & (_OUTBOX.c.next_attempt_at_ms < now - _LATE_S * 1000)
    late, earliest = connection.execute(select(func.count(), func.min(_OUTBOX.c.next_attempt_at_ms)).where(due)).one()
    if late:
        text = texts.OUTBOX_LATE.format(count=late, age=texts.duration((now - earliest) / 1000))
        yield Finding(texts.SYSTEM, "outbox-late", "fail", text, texts.OUTBOX_LATE_FIX)
    stuck = mine & (_OUTBOX.c.status == "parked") & (_OUTBOX.c.park_reason == "operator")
    waiting = connection.execute(select(func.count()).where(stuck)).scalar_one()
    if waiting:
        text = texts.OUTBOX_OPERATOR.format(count=waiting)
        yield Finding(texts.SYSTEM, "outbox-operator", "fail", text, texts.OUTBOX_OPERATOR_FIX)
    gone = mine & (_OUTBOX.c.status == "dead") & (_OUTBOX.c.created_at_ms > now - _DAY_MS)
    dead = connection.execute(select(func.count()).where(gone)).scalar_one()
    if dead:
        yield Finding(texts.SYSTEM, "outbox-dead", "warn", texts.OUTBOX_DEAD.format(count=dead), texts.OUTBOX_DEAD_FIX)


def as_json(findings: list[dict[str, str]]) -> str:
    """Findings as one JSON array, Chinese readable."""
    return json.dumps(findings, ensure_ascii=False)
