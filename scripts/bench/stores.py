"""The throwaway Valkey of a benchmark, on a unix socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.embedded import answers, find_engine, prepare, socket_path
from scripts.bench.processes import Running, start, wait_until


@contextmanager
def valkey(folder: Path) -> Iterator[Running]:
    """A Valkey of this run, with the product's own options; its socket is ``url_of(folder)``."""
    running = start_valkey(folder)
    try:
        yield running
    finally:
        running.stop(5)


def start_valkey(folder: Path) -> Running:
    """Start (again) the Valkey of this folder and wait for it."""
    running = start("valkey", prepare(folder, find_engine()), folder)
    wait_until(lambda: answers(socket_path(folder)), running, "Valkey", 15)
    return running


def url_of(folder: Path) -> str:
    """The Redis URL of ``valkey(folder)``."""
    return f"unix://{socket_path(folder)}?db=0"
