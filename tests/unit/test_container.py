"""The container files: the linters accept them, and they hold what production needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def _tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not on this machine")
    return found


def test_hadolint_accepts_the_dockerfile() -> None:
    """No finding of any level."""
    done = subprocess.run([_tool("hadolint"), "--no-color", str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("profile", [[], ["--profile", "model"]], ids=["plain", "model"])
def test_compose_accepts_the_file(profile: list[str]) -> None:
    """``docker-compose config -q`` passes with and without the model server, without any .env."""
    command = [_tool("docker-compose"), "-f", str(ROOT / "compose.yaml"), *profile, "config", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def services() -> dict[str, Any]:
    """The services of the compose file."""
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return services


def test_compose_has_one_entry(services: dict[str, Any]) -> None:
    """S001-75: only the entry publishes a port, before two gateways; stores and worker stay inside."""
    assert [name for name, service in services.items() if "ports" in service] == ["entry"]
    assert set(services) >= {"entry", "gateway-1", "gateway-2", "worker", "valkey", "postgres", "qdrant", "model"}
    assert services["model"]["profiles"] == ["model"]
    assert [services[name]["command"] for name in ("gateway-1", "gateway-2", "worker")] == [["serve"], ["serve"], ["worker"]]
    entry = (ROOT / "config" / "entry.nginx.conf").read_text()
    assert "server gateway-1:8080" in entry
    assert "server gateway-2:8080" in entry


def test_valkey_never_evicts(services: dict[str, Any]) -> None:
    """The queue store keeps what it was given: append-only file, no eviction."""
    command = " ".join(services["valkey"]["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_image_does_not_run_as_root() -> None:
    """The last USER of the image is not root, and the health check asks the process itself."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")][-1] == "USER 10001:10001"
    assert any("/healthz" in line for line in lines)
