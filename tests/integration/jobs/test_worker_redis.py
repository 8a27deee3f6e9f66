"""A worker whose Redis is killed and comes back goes on working, without being started again; one that hangs keeps none."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis

from agent.protocol import TurnResult
from config.settings import demo_settings
from gateway import embedded, worker
from gateway.app import build, close
from gateway.migrate import upgrade
from gateway.services import Services
from gateway.turns import StopFlag
from tests.integration.jobs.steps import queue_job, until


def start_valkey(data_dir: Path) -> subprocess.Popen[bytes]:
    command = embedded.prepare(data_dir, embedded.find_engine())
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def test_a_worker_survives_redis(tmp_path: Path) -> None:
    """kill -9 of Valkey with slots waiting in it: after its return a ring reaches them within seconds."""
    data_dir = tmp_path / "d"
    valkey = start_valkey(data_dir)
    settings = demo_settings(data_dir, worker={"slots": 3, "turn_slots": 1})
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    services = await build(settings)
    done: list[str] = []

    async def work(_services: Services, job: Mapping[str, Any], _stop: StopFlag) -> TurnResult:
        done.append(job["id"])
        return TurnResult(outcome="empty")

    stop = asyncio.Event()
    task = asyncio.create_task(worker.run_worker(services, stop))
    try:
        await until(lambda: worker._runtime is not None and worker._runtime._services is services)
        assert worker._runtime is not None
        worker._runtime.jobs._functions = {"work": work}
        await until(services.bell.is_up)
        first = await queue_job(services)
        await services.bell.ring("task", first)
        await until(lambda: done == [first])
        valkey.kill()
        valkey.wait()
        second = await queue_job(services)
        await services.bell.ring("task", second)
        valkey = start_valkey(data_dir)
        await until(services.bell.is_up)
        await services.bell.ring("task", second)
        await until(lambda: done == [first, second])
    finally:
        stop.set()
        await task
        await close(services)
        valkey.terminate()
        valkey.wait(10)


async def test_a_redis_that_hangs_does_not_keep_a_worker(tmp_path: Path) -> None:
    """Nobody answers and nobody hangs up: the worker ends all the same, within the ten seconds it has."""
    data_dir = tmp_path / "d"
    valkey = start_valkey(data_dir)
    settings = demo_settings(data_dir, worker={"slots": 3, "turn_slots": 1})
    await asyncio.to_thread(upgrade, settings.sqlalchemy_url)
    services = await build(settings)
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run_worker(services, stop))
    try:
        await until(services.bell.is_up)
        await until(lambda: len(registered(data_dir)) == 3)
        valkey.send_signal(signal.SIGSTOP)
        stop.set()
        await asyncio.wait_for(task, 9)
    finally:
        valkey.send_signal(signal.SIGCONT)
        await close(services)
        valkey.terminate()
        valkey.wait(10)


def registered(data_dir: Path) -> list[bytes]:
    """The slots RQ knows of."""
    with redis.Redis(unix_socket_path=str(embedded.socket_path(data_dir))) as client:
        return list(client.smembers("rq:workers"))
