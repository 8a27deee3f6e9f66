"""What the chat page can do to the running demo: slow the model down, kill the worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from .acts import ActError
from .world import World

DELAY_FILE = "demo_model_delay_ms"
"""File in the data folder; the offline model waits that many milliseconds when the demo is on."""
KILLABLE = ("worker", "gateway", "serve")
MAX_DELAY_MS = 120_000


class DemoActs:
    """``POST /_sim/demo``; refused unless the simulator was started with ``--demo-dir``."""

    def __init__(self, world: World) -> None:
        self._world = world
        if world.demo_dir is not None:
            (world.demo_dir / DELAY_FILE).unlink(missing_ok=True)  # an earlier run's slowness does not carry over

    def state(self) -> dict[str, Any]:
        """Whether a demo runs and how slow its model is."""
        folder = self._world.demo_dir
        return {"on": folder is not None, "model_delay_ms": _read_delay(folder) if folder else 0}

    async def act(self, request: dict[str, Any]) -> dict[str, Any]:
        """``{"model_delay_ms": 8000}`` or ``{"kill": "worker"}``."""
        folder = self._world.demo_dir
        if folder is None:
            raise ActError(409, "no demo runs: the simulator was started without --demo-dir")
        result = self.state()
        if "model_delay_ms" in request:
            delay = min(max(0, int(request["model_delay_ms"])), MAX_DELAY_MS)
            _write(folder / DELAY_FILE, str(delay))
            result["model_delay_ms"] = delay
        if "kill" in request:
            result["killed"] = _kill(folder, str(request["kill"]))
        self._world.log.publish("demo", result)
        return result


def _kill(folder: Path, name: str) -> int:
    """Send SIGKILL to the product process whose pid file the supervisor wrote. Raises ActError."""
    if name not in KILLABLE:
        raise ActError(400, f"only {', '.join(KILLABLE)} can be killed")
    try:
        pid = int((folder / "run" / f"{name}.pid").read_text(encoding="ascii").strip())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except (OSError, ValueError):
        raise ActError(404, f"{name} is not running") from None
    if pid <= 1 or name.encode() not in command:
        raise ActError(409, f"process {pid} is not a {name}")
    os.kill(pid, signal.SIGKILL)
    return pid


def _read_delay(folder: Path) -> int:
    try:
        return int((folder / DELAY_FILE).read_text(encoding="ascii").strip() or "0")
    except (OSError, ValueError):
        return 0


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="ascii")
    os.replace(part, path)
