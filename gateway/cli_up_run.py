"""`yizhan up`: everything on one machine, as supervised child processes; this process serves nothing itself."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from config.errors import SettingsError
from config.logging import setup_logging
from config.schema import Listen, Settings
from config.settings import SIM_PORT, child_environment, load, write_demo_state
from gateway import embedded, up_texts
from gateway.ports import address, port_error
from gateway.prestart import Prestarted
from gateway.supervisor import Child, Supervisor, await_orphans, lock_folder

NAMES = ("serve", "worker", "simulator", "valkey")
TOKEN_FILE = "simulator.token"  # noqa: S105 -- a file name
_SLOW_AFTER_S = 10.0
_WORKER_LATER_S = 1.0
"""The gateway gets the processor first: people can write before anything needs the worker."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will run: settings as the children will see them, and the ports chosen."""

    settings: Settings
    file: Path | None
    sim_port: int
    environ: dict[str, str]
    token: str = ""

    @property
    def demo(self) -> bool:
        """Whether the simulator runs with it."""
        return self.settings.demo

    @property
    def page(self) -> str:
        """The chat page's address."""
        return f"http://127.0.0.1:{self.sim_port}/?token={self.token}"


def run_up(args: argparse.Namespace, prestarted: Prestarted) -> int:
    """Run until a signal; the exit code. ``prestarted`` becomes the first gateway process.

    Raises SettingsError or AlreadyRunning before anything else was started.
    """
    started = prestarted.started_at
    setup_logging("WARNING")
    plan = _first_plan(args)
    data_dir = plan.settings.data_dir
    embedded.private_folder(data_dir)
    embedded.private_folder(data_dir / "run")
    lock = lock_folder(data_dir)
    try:
        await_orphans(data_dir / "run", NAMES)
        plan = _final_plan(args, plan)
        children = _children(plan)
        embedded.private_folder(data_dir / "logs")
        _adopt(next(child for child in children if child.name == "serve"), plan, prestarted, args)
        supervisor = Supervisor(data_dir, children, to_terminal=args.verbose, may_mend=_Edited(plan))
        print(up_texts.STARTING.format(data_dir=data_dir, logs=data_dir / "logs"), flush=True)
        code = supervisor.run(_Progress(plan, supervisor, started).look)
        _tell_why(supervisor, data_dir)
        print(up_texts.STOPPED, flush=True)
        return code
    finally:
        os.close(lock)


# the plan ---------------------------------------------------------------------------------------------------------------


def _first_plan(args: argparse.Namespace) -> Plan:
    """Settings with the options applied, so far as they can be without the folder's lock."""
    environ: dict[str, str] = {}
    if args.data_dir is not None:
        environ["YIZHAN_DATA_DIR"] = str(args.data_dir.absolute())
    for option, name in (("port", "YIZHAN_HTTP__PORT"), ("admin_port", "YIZHAN_ADMIN__PORT"), ("sim_port", "YIZHAN_SIM_PORT")):
        if getattr(args, option) is not None:
            environ[name] = str(getattr(args, option))
    demo = True if args.demo else None
    loaded = load(args.config, child_environment(environ), demo=demo, recall_demo=False)
    for warning in loaded.warnings:
        print(warning, file=sys.stderr)
    sim_port = int(child_environment(environ).get("YIZHAN_SIM_PORT") or SIM_PORT)
    return Plan(loaded.settings, loaded.file, sim_port, environ)


def _final_plan(args: argparse.Namespace, plan: Plan) -> Plan:
    """Choose free ports for 0, check that the others are free, and load the settings once more as the children will."""
    settings, environ = plan.settings, dict(plan.environ)
    http_port = _port(settings.http, "http")
    admin_port = _port(settings.admin, "admin")
    environ |= {"YIZHAN_HTTP__PORT": str(http_port), "YIZHAN_ADMIN__PORT": str(admin_port)}
    environ |= {"YIZHAN_DATA_DIR": str(settings.data_dir), "YIZHAN_DEMO": "true" if plan.demo else "false"}
    sim_port, token = plan.sim_port, ""
    if plan.demo:
        sim_port = _port(Listen(port=plan.sim_port), "sim")
        environ["YIZHAN_SIM_PORT"] = str(sim_port)
        if settings.test_clock is None:
            environ["YIZHAN_TEST_CLOCK"] = str(settings.data_dir / "run" / "clock")
        token = secrets.token_urlsafe(18)
        _write_private(settings.data_dir / "run" / TOKEN_FILE, token)
        write_demo_state(settings.data_dir, sim_port=sim_port, http_port=http_port, admin_port=admin_port)
    else:
        (settings.data_dir / "run" / "demo.json").unlink(missing_ok=True)
    final = load(args.config, child_environment(environ), demo=plan.demo, recall_demo=False).settings
    return Plan(final, plan.file, sim_port, environ, token)


def _port(listen: Listen, name: str) -> int:
    """The port to listen on, free at this moment. Raises SettingsError that names the option."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen.host, listen.port))
        except OSError as error:
            raise port_error(name, listen, error) from None
        return int(probe.getsockname()[1])


# the children -----------------------------------------------------------------------------------------------------------


def _children(plan: Plan) -> list[Child]:
    settings, data_dir = plan.settings, plan.settings.data_dir
    root = str(Path(__file__).resolve().parents[1])
    environ = {**plan.environ, "PYTHONPATH": root}
    children = []
    if settings.redis_url is None:
        command = embedded.prepare(data_dir, embedded.find_engine())
        children.append(Child("valkey", command, last=True, socket=embedded.socket_path(data_dir)))
        environ["YIZHAN_REDIS_URL"] = embedded.redis_url_of(settings)
    config = ["--config", str(plan.file.resolve())] if plan.file is not None else []
    run = [sys.executable, "-m", "gateway.cli"]
    children.append(Child("serve", [*run, "serve", *config], environ))
    if plan.demo:
        children.append(Child("simulator", _simulator(plan), environ))
    children.append(Child("worker", [*run, "worker", *config], environ, start_at=time.monotonic() + _WORKER_LATER_S))
    return children


def _adopt(child: Child, plan: Plan, prestarted: Prestarted, args: argparse.Namespace) -> None:
    """Let the gateway that is loading already go on; without it the supervisor starts one."""
    log = None if args.verbose else plan.settings.data_dir / "logs" / "serve.log"
    child.process = prestarted.release(child.environ, plan.file.resolve() if plan.file is not None else None, log)
    child.started_at = time.monotonic()


def _simulator(plan: Plan) -> list[str]:
    from config.demo import simulator_accounts

    data_dir = plan.settings.data_dir
    accounts = data_dir / "run" / "simulator.json"
    _write_private(accounts, json.dumps(simulator_accounts("", data_dir), ensure_ascii=False))
    clock = plan.settings.test_clock or data_dir / "run" / "clock"
    return [
        *(sys.executable, "-m", "scripts.simulator"),
        *("--port", str(plan.sim_port), "--token", plan.token),
        *("--callback-base", address(plan.settings.http)),
        *("--accounts", str(accounts), "--clock", str(clock), "--demo-dir", str(data_dir)),
    ]


def _write_private(path: Path, content: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(content)


class _Edited:
    """Whether the settings, which were good when everything started, are being edited: what runs must not end for that.

    A child that ends now may have read the file before it was saved again, so each change of the file is worth one start."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._told = ""
        self._seen = self._stamp()

    def __call__(self) -> bool:
        before, self._seen = self._seen, self._stamp()
        try:
            load(self._plan.file, child_environment(self._plan.environ), demo=self._plan.demo, recall_demo=False)
        except SettingsError as error:
            if str(error) != self._told:
                self._told = str(error)
                print(up_texts.SETTINGS_WAIT.format(error=error), file=sys.stderr, flush=True)
            return True
        self._told = ""
        return self._seen != before

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = None if self._plan.file is None else self._plan.file.stat()
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_size)


# readiness --------------------------------------------------------------------------------------------------------------


class _Progress:
    """Looks whether everything answers, and says so once."""

    def __init__(self, plan: Plan, supervisor: Supervisor, started: float) -> None:
        self._plan = plan
        self._supervisor = supervisor
        self._started = started
        self._slow_told = False

    def look(self) -> bool:
        """True once ready; nothing is left to look at then."""
        settings = self._plan.settings
        ready, reason = answers(settings.admin, "/readyz")
        if ready and self._plan.demo:
            ready, reason = answers(Listen(port=self._plan.sim_port), "/healthz", any_status=True)
        if ready:
            self._tell_ready()
            return True
        if not self._slow_told and time.monotonic() - self._started > _SLOW_AFTER_S:
            self._slow_told = True
            reason = self._last_words() or reason
            print(up_texts.SLOW.format(reason=reason, logs=settings.data_dir / "logs"), flush=True)
        return False

    def _last_words(self) -> str | None:
        """What a child that keeps ending says to people; its log's other lines are events."""
        for child in self._supervisor.children:
            if child.quick_exits > 0:
                lines = [line for line in _log_end(self._plan.settings.data_dir, child.name) if line.strip() and line[0] != "{"]
                return f"{child.name}：{lines[-1]}" if lines else None
        return None

    def _tell_ready(self) -> None:
        settings, took_s = self._plan.settings, time.monotonic() - self._started
        if self._plan.demo:
            print(up_texts.READY_DEMO.format(took_s=took_s, page=self._plan.page))
        else:
            callback = settings.http.public_url or address(settings.http)
            print(up_texts.READY.format(took_s=took_s, callback=callback, admin=address(settings.admin)))
            accounts = [account.id for tenant in settings.tenants for account in tenant.accounts]
            print(up_texts.ACCOUNTS.format(accounts="、".join(accounts)) if accounts else up_texts.NO_ACCOUNTS)
        print(up_texts.STOP_HINT, flush=True)


def answers(listen: Listen, path: str, *, any_status: bool = False) -> tuple[bool, str]:
    """One bare HTTP GET: whether it says 200 (or anything at all), and what it said."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104
    try:
        with socket.create_connection((host, listen.port), timeout=2.5) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            received = b""
            while chunk := connection.recv(4096):
                received += chunk
    except OSError as error:
        return False, up_texts.NO_ANSWER.format(port=listen.port, reason=type(error).__name__)
    head, _, body = received.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    return (any_status and bool(status)) or status == [b"200"], body.decode("utf-8", "replace")[:200]


def _tell_why(supervisor: Supervisor, data_dir: Path) -> None:
    """What a child that gave up said last."""
    if supervisor.gave_up is None:
        return
    print(up_texts.GAVE_UP.format(name=supervisor.gave_up), file=sys.stderr)
    for line in _log_end(data_dir, supervisor.gave_up)[-6:]:
        print(f"  {line}", file=sys.stderr)


def _log_end(data_dir: Path, name: str) -> list[str]:
    """The last lines of a child's log; none when it cannot be read."""
    try:
        return (data_dir / "logs" / f"{name}.log").read_text("utf-8", "replace").splitlines()[-20:]
    except OSError:
        return []
