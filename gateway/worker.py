"""The loop worker: K RQ slots (threads) that share one asyncio loop and its pools; each slot waits for one wake-up's work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue, SimpleWorker
from rq.exceptions import DequeueTimeout, StopRequested
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty
from sqlalchemy import Connection, select

from config.columns import table_of
from config.ids import new_id
from config.logging import get_logger, log
from gateway.jobs import JobRunner
from gateway.models import Inbound, Job
from gateway.queue import ALIVE_PREFIX, ENTRY, RESULT_TTL_S, WORK_QUEUES
from gateway.redis_links import open_blocking
from memory.models import Conversation

if TYPE_CHECKING:
    from config.schema import Settings
    from gateway.services import Services

_JOB = table_of(Job)
_INBOUND = table_of(Inbound)
_CONVERSATION = table_of(Conversation)
_ALIVE_S = 30
_BOUNCE_S = 0.1
_REDIS_AWAY_S = 0.5
_logger = get_logger(__name__)
_runtime: Runtime | None = None


def run_entry(queue: str, key: str) -> None:
    """What every wake-up calls, in a slot's thread: hands (queue, key) to the loop and waits. Never raises."""
    if _runtime is not None:
        _runtime.handle_blocking(queue, key)


class Runtime:
    """The loop side of a worker process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._tenants: Counter[str] = Counter()
        self._slots = services.settings.worker.slots
        self.jobs = JobRunner(services)
        self.closing = False

    def handle_blocking(self, queue: str, key: str) -> None:
        """Run one wake-up on the loop; called from a slot's thread. A process that is ending passes it on."""
        if self._loop.is_closed():
            return
        work = self._services.bell.ring(queue, key) if self.closing else self.handle(queue, key)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with contextlib.suppress(BaseException):  # the loop side logs; a slot lives on whatever happened
            future.result()

    async def handle(self, queue: str, key: str) -> None:
        """Route a wake-up: conversations to the turns, everything else to the jobs. The boundary: logs, never raises."""
        try:
            tenant = await self._services.database.read(lambda connection: _tenant_of(connection, queue, key))
            if tenant is None:
                return
            self._tenants[tenant] += 1  # counted before anything is awaited, or several would pass the look at once
            try:
                if await self._must_wait(tenant):
                    await asyncio.sleep(_BOUNCE_S)
                    await self._services.bell.ring(queue, key)
                    return
                if queue == "turn":
                    await self._services.dispatcher.run_waiting(key, dict(self._services.channels))
                else:
                    await self.jobs.run(key)
            finally:
                self._tenants[tenant] -= 1
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 -- the boundary of one wake-up: the row stays open and the reaper rings again
            log(_logger, "wakeup.failed", logging.ERROR, queue=queue, key=key, error=error)

    async def close(self, grace_s: float) -> None:
        """Take nothing new, finish or give back within ``grace_s``."""
        self.closing = True
        await asyncio.gather(self.jobs.close(grace_s), self._services.runner.close(grace_s), self._services.fast.close(grace_s))

    async def _must_wait(self, tenant: str) -> bool:
        """A tenant with half the slots goes to the back of the queue while another one waits (N-09)."""
        if self._tenants[tenant] <= max(1, self._slots // 2):
            return False
        return await self._services.database.read(lambda connection: _others_wait(connection, tenant))


class WakeUp(RqJob):
    """An RQ job that can only call our entry: what Redis says about functions, callbacks and webhooks is ignored (N-19)."""

    def _execute(self) -> None:
        if self.func_name != ENTRY or len(self.args) != 2:
            log(_logger, "wakeup.refused", logging.WARNING, job=self.id)
            return
        run_entry(str(self.args[0]), str(self.args[1]))

    @property
    def success_callback(self) -> None:
        """No callbacks."""

    @property
    def failure_callback(self) -> None:
        """No callbacks."""

    @property
    def stopped_callback(self) -> None:
        """No callbacks."""

    def send_webhooks(self, *_args: Any, **_options: Any) -> None:
        """No webhooks."""


class NoDeathPenalty(BaseDeathPenalty):
    """RQ's time limit works with signals or injected exceptions, neither of which a thread of ours may get; jobs have
    deadlines of their own."""

    def setup_death_penalty(self) -> None:
        """Nothing."""

    def cancel_death_penalty(self) -> None:
        """Nothing."""


class Slot(SimpleWorker):
    """One RQ worker in a thread: no signals, no command channel, quick to find Redis again."""

    job_class = WakeUp
    death_penalty_class = NoDeathPenalty
    log_result_lifespan = False
    keeps_house = False

    def _install_signal_handlers(self) -> None:
        """Signals belong to the process."""

    def subscribe(self) -> None:
        """No command channel: a slot cannot be told to shut down or kill anything over Redis."""

    def unsubscribe(self) -> None:
        """See subscribe."""

    def dequeue_job_and_maintain_ttl(self, timeout: int | None, max_idle_time: int | None = None) -> tuple[RqJob, Queue] | None:
        """RQ's waiting loop with two differences: it ends on stop without losing what it popped, and it never waits longer
        than a second for a Redis that went away."""
        while True:
            if self._stop_requested:
                raise StopRequested
            try:
                self.heartbeat()
                if self.should_run_maintenance_tasks:
                    self.run_maintenance_tasks()  # type: ignore[no-untyped-call]
                return self.queue_class.dequeue_any(
                    self._ordered_queues,
                    timeout,
                    connection=self.connection,
                    job_class=self.job_class,
                    serializer=self.serializer,
                    death_penalty_class=self.death_penalty_class,
                )
            except DequeueTimeout:
                continue
            except (RedisConnectionError, RedisTimeoutError):
                if not self._stop_requested:
                    time.sleep(_REDIS_AWAY_S)

    @property
    def should_run_maintenance_tasks(self) -> bool:
        """One slot of the process cleans RQ's registries."""
        return self.keeps_house and bool(super().should_run_maintenance_tasks)


class SlotThreads:
    """The threads of a worker process; each lives until the process ends."""

    def __init__(self, url: str, slots: int, turn_slots: int) -> None:
        self._url = url
        self._names = [f"{socket.gethostname()}-{new_id('s')}-{number}" for number in range(slots)]
        self._turn_slots = min(turn_slots, slots - 1)
        self._stopping = threading.Event()
        self._workers: dict[str, Slot] = {}

    def start(self) -> None:
        """Start every slot."""
        for number, name in enumerate(self._names):
            threading.Thread(target=self._live, args=(number, name), name=f"slot-{number}", daemon=True).start()

    def stop(self) -> None:
        """Take no further wake-ups: threads that wait in Redis lose their connection and end."""
        self._stopping.set()
        for worker in list(self._workers.values()):  # threads may still be starting
            worker._stop_requested = True
            worker.connection.connection_pool.disconnect()

    def forget(self) -> None:
        """Take the slots off RQ's list of workers, as far as Redis is there. Over a connection with a time limit: their own
        wait for ever, also for a Redis that hangs."""
        connection = open_blocking(self._url)
        for worker in list(self._workers.values()):
            worker.connection = connection
            try:
                worker.register_death()  # type: ignore[no-untyped-call]
            except Exception:  # noqa: BLE001 -- Redis may be gone already; the entry expires
                return

    def _live(self, number: int, name: str) -> None:
        queues = ["turn"] if number < self._turn_slots else list(WORK_QUEUES)
        generation = 0
        while not self._stopping.is_set():
            generation += 1
            try:
                connection = open_blocking(self._url, socket_s=None)
                worker = Slot(
                    queues,
                    name=f"{name}-{generation}",
                    connection=connection,
                    serializer=JSONSerializer,
                    worker_ttl=60,
                    default_result_ttl=RESULT_TTL_S,
                    log_job_description=False,
                )
                worker.keeps_house = number == self._turn_slots
                self._workers[name] = worker
                if self._stopping.is_set():  # stop() may have looked before this one was there
                    return
                worker.work(logging_level="CRITICAL")
            except Exception as error:  # noqa: BLE001 -- the slot's boundary: Redis went away; try again for ever
                log(_logger, "slot.lost", logging.INFO, slot=number, reason=type(error).__name__)
            self._stopping.wait(0.5)


async def run_worker(services: Services, stop: asyncio.Event) -> None:
    """Work until ``stop``; then finish or give back what runs, within eight seconds."""
    global _runtime
    from gateway.embedded import redis_url_of

    runtime = Runtime(services)
    _runtime = runtime
    limits = services.settings.worker
    threads = SlotThreads(redis_url_of(services.settings), limits.slots, limits.turn_slots)
    threads.start()
    alive = asyncio.create_task(_say_alive(services))
    log(_logger, "worker.started", slots=limits.slots, turn_slots=limits.turn_slots)
    await stop.wait()
    started = time.monotonic()
    threads.stop()
    alive.cancel()
    await runtime.close(7.0)
    await asyncio.to_thread(threads.forget)
    log(_logger, "worker.stopped", took_ms=int((time.monotonic() - started) * 1000))


async def work(settings: Settings, stop: asyncio.Event) -> None:
    """The worker process: build, work until ``stop``, close."""
    from gateway.app import build, close
    from gateway.background import Background
    from gateway.parts import open_alerts
    from gateway.retention import RetentionPass
    from gateway.worker_counts import WorkerCounts

    services = await build(settings)
    open_alerts(services)
    counts = WorkerCounts(services.bell.redis)
    background = Background(stop)
    try:
        await services.capabilities.refresh()
        for part in (services.capabilities.run, RetentionPass(services).run, counts.run):
            background.start(part)
        await run_worker(services, stop)
        await asyncio.gather(background.end(1.0), counts.flush())
    finally:
        await close(services)


async def _say_alive(services: Services) -> None:
    while True:
        with contextlib.suppress(Exception):  # Redis is away; the key says so by expiring
            await services.bell.redis.set(ALIVE_PREFIX + services.owner, str(services.settings.worker.slots), ex=_ALIVE_S)
        await asyncio.sleep(_ALIVE_S / 3)


def _tenant_of(connection: Connection, queue: str, key: str) -> str | None:
    """Whose work a key is, and whether it is still open at all."""
    if queue == "turn":
        statement = select(_CONVERSATION.c.tenant_id).where(_CONVERSATION.c.id == key)
    else:
        statement = select(_JOB.c.tenant_id).where(_JOB.c.id == key, _JOB.c.status.in_(("queued", "running")))
    tenant = connection.execute(statement).scalar()
    return None if tenant is None else str(tenant)


def _others_wait(connection: Connection, tenant: str) -> bool:
    """Whether another tenant has a job queued or a message the reaper rang for."""
    jobs = select(_JOB.c.id).where(_JOB.c.status == "queued", _JOB.c.tenant_id != tenant)
    rows = select(_INBOUND.c.seq).where(_INBOUND.c.status == "received", _INBOUND.c.tenant_id != tenant)
    rung = rows.where(_INBOUND.c.rung_at_ms.is_not(None))
    return any(connection.execute(waiting.limit(1)).first() is not None for waiting in (jobs, rung))


def wakeup_view(job: RqJob) -> Mapping[str, Any]:
    """A wake-up as data, for tests and ``doctor``: function name and arguments only."""
    return {"function": job.func_name, "args": list(job.args)}
