"""The product as processes, for benchmarks: settings, stores, gateways, workers, the simulator; killed and ended by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.bench import envelopes
from scripts.bench.processes import Running, answers, cpu_s, free_port, rss_mb, start, wait_until, yizhan
from scripts.bench.stores import url_of, valkey


@dataclass(slots=True)
class Product:
    """Running processes of one deployment. ``ports`` are the gateways' callback ports."""

    folder: Path
    config: Path
    gateways: list[Running] = field(default_factory=list)
    workers: list[Running] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    admin_ports: list[int] = field(default_factory=list)
    store: Running | None = None

    @property
    def pids(self) -> list[int]:
        """Every product process, the Valkey included."""
        return [running.pid for running in (*self.gateways, *self.workers, *([self.store] if self.store else []))]

    def cpu_s(self) -> float:
        """CPU seconds of every product process so far."""
        return cpu_s(self.pids)

    def rss_mb(self) -> list[float]:
        """Resident megabytes of each gateway."""
        return [rss_mb([running.pid]) for running in self.gateways]

    def start_gateway(self) -> float:
        """One more gateway; returns the seconds until it was ready."""
        port, admin = free_port(), free_port()
        environ = {"YIZHAN_HTTP__PORT": str(port), "YIZHAN_ADMIN__PORT": str(admin)}
        running = start(f"gateway-{len(self.gateways)}", yizhan("serve", "--config", str(self.config)), self.folder, environ)
        self.gateways.append(running)
        self.ports.append(port)
        self.admin_ports.append(admin)
        return wait_until(lambda: answers(f"http://127.0.0.1:{admin}/readyz"), running, "the gateway", 30)

    def start_worker(self) -> None:
        """One more worker."""
        self.workers.append(start(f"worker-{len(self.workers)}", yizhan("worker", "--config", str(self.config)), self.folder))

    def stop(self) -> None:
        """End gateways and workers, gracefully."""
        for running in (*self.gateways, *self.workers):
            running.stop()


@contextmanager
def product(
    folder: Path,
    *,
    gateways: int = 1,
    workers: int = 0,
    database_url: str | None = None,
    accounts: Sequence[Mapping[str, Any]] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Iterator[Product]:
    """A deployment in ``folder`` with a Valkey of its own, until the block ends."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    config = folder / "yizhan.yaml"
    with valkey(data) as store:
        settings = {
            "data_dir": str(data),
            "redis_url": url_of(data),
            "database_url": database_url,
            "log_level": "WARNING",
            "tenants": [{"id": "bench", "accounts": list(accounts or [envelopes.account(f"http://127.0.0.1:{free_port()}")])}],
            **(more or {}),
        }
        config.write_text(json.dumps(settings))  # JSON is YAML
        running = Product(folder, config, store=store)
        try:
            for _ in range(gateways):
                running.start_gateway()
            for _ in range(workers):
                running.start_worker()
            yield running
        finally:
            running.stop()
