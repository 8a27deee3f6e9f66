"""Loads the settings: YAML file, then YIZHAN_* overrides, then checks. The only reader of the environment."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, SecretStr

from config import texts
from config.errors import SettingsError
from config.logging import get_logger, log, register_secret
from config.schema import Settings
from config.settings_check import check_references, label, put, raise_problems, validate
from config.yaml_source import Path_, Source, dotted, parse_yaml

DEFAULT_FILE = "yizhan.yaml"
DEMO_STATE = "demo.json"
"""In ``data_dir/run``: the ports of the demo that last ran there, so that operators' commands find its accounts."""

SIM_PORT = 8090
_logger = get_logger(__name__)
_RESERVED = ("YIZHAN_CONFIG", "YIZHAN_SHARED", "YIZHAN_SIM_", "YIZHAN_TEST_", "YIZHAN_BENCH_", "YIZHAN_RUN_", "YIZHAN_LOG_FILE")
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_TRIMMED = frozenset(
    [
        "id",
        "corp_id",
        "app_id",
        "agent_id",
        "secret",
        "app_secret",
        "callback_token",
        "encoding_aes_key",
        "original_id",
        "api_key",
        "base_url",
        "alert_webhook",
        "webhook",
        "api_base",
        "proxy_url",
        "database_url",
        "redis_url",
        "qdrant_url",
        "public_url",
        "host",
        "account",
        "user",
        "mode",
        "platform",
    ]
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, the file they came from (None: embedded defaults), and what an operator should know about them."""

    settings: Settings
    file: Path | None
    warnings: tuple[str, ...]


def load_settings(path: Path | None = None, environ: Mapping[str, str] | None = None, *, demo: bool | None = None) -> Settings:
    """The settings, warnings logged. See ``load``."""
    loaded = load(path, environ, demo=demo)
    for warning in loaded.warnings:
        log(_logger, "settings.warning", logging.WARNING, warning=warning)
    return loaded.settings


def load(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    demo: bool | None = None,
    recall_demo: bool = True,
) -> Loaded:
    """Load ``path``, else ``YIZHAN_CONFIG``, else ./yizhan.yaml, else the embedded defaults; then YIZHAN_* overrides.

    ``demo`` forces the demo on or off; None leaves it to the settings. Without a file and accounts, ``recall_demo`` takes the
    demo that last ran in the data folder. Raises SettingsError that lists every problem with account, field, expected form
    and origin, never a value.
    """
    environ = os.environ if environ is None else environ
    file = _find_file(path, environ)
    source = Source() if file is None else _read(file, environ)
    base = Path.cwd() if file is None else file.resolve().parent
    _apply_overrides(source, environ)
    warnings = _trim(source)
    if demo is not None:
        source.data["demo"] = demo
    _resolve_paths(source, base)
    if environ.get("YIZHAN_TEST_CLOCK"):
        source.data["test_clock"] = str(Path(environ["YIZHAN_TEST_CLOCK"]).absolute())
    if recall_demo and file is None and "demo" not in source.data and _demo_ran(source):
        source.data["demo"] = True
    if source.data.get("demo") in (True, "true", "1", "True", "yes", "on"):
        _fill_demo(source, environ)
    settings = validate(source)
    check_references(settings, source)
    if settings.demo:
        _check_demo(settings, source)
    _register_secrets(settings)
    return Loaded(settings, file, tuple(warnings))


def demo_settings(
    data_dir: Path, sim_port: int = SIM_PORT, http_port: int = 8080, admin_port: int = 8081, **more: Any
) -> Settings:
    """Settings of the demo without any file: the simulator's accounts on loopback. ``more`` are top-level settings."""
    from config.demo import demo_tenant

    data = {
        "data_dir": data_dir.absolute(),
        "demo": True,
        "http": {"host": "127.0.0.1", "port": http_port, "public_url": f"http://127.0.0.1:{http_port}"},
        "admin": {"host": "127.0.0.1", "port": admin_port},
        "tenants": [demo_tenant(f"http://127.0.0.1:{sim_port}", data_dir.absolute())],
        **more,
    }
    settings = Settings.model_validate(data)
    _register_secrets(settings)
    return settings


def child_environment(overrides: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with ``overrides``, for a child process."""
    return {**os.environ, **overrides}


def take_environment(values: Any) -> None:
    """Add to this process's environment what its parent decided after it was started."""
    os.environ.update({str(name): str(value) for name, value in dict(values).items()})


def write_demo_state(data_dir: Path, *, sim_port: int, http_port: int, admin_port: int) -> None:
    """Remember the demo's ports for operators' commands."""
    run = data_dir / "run"
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    (run / DEMO_STATE).write_text(json.dumps({"sim_port": sim_port, "http_port": http_port, "admin_port": admin_port}))


def settings_file(path: Path | None = None) -> Path | None:
    """The file that ``load`` would read: ``path``, ``YIZHAN_CONFIG`` or ./yizhan.yaml; None for the embedded defaults."""
    return _find_file(path, os.environ)


# file and environment --------------------------------------------------------------------------------------------------


def _find_file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = path or (Path(environ["YIZHAN_CONFIG"]) if environ.get("YIZHAN_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise SettingsError(texts.NO_FILE.format(file=named, option="--config" if path else "YIZHAN_CONFIG"))
        return named
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def _read(file: Path, environ: Mapping[str, str]) -> Source:
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(texts.UNREADABLE.format(file=file, reason=type(error).__name__)) from None
    return parse_yaml(text, file.name, environ)


def _apply_overrides(source: Source, environ: Mapping[str, str]) -> None:
    for name in sorted(environ):
        if not name.startswith("YIZHAN_") or name.startswith(_RESERVED):
            continue
        path = tuple(int(part) if part.isdigit() else part for part in name.removeprefix("YIZHAN_").lower().split("__"))
        value: Any = environ[name]
        if value[:1] in ("[", "{"):
            try:
                value = yaml.safe_load(value)
            except yaml.YAMLError:
                _fault(source, path, texts.NOT_YAML_HERE, name)
                continue
        elif value == "" or value == "null":
            value = None
        if not put(source.data, path, value):
            _fault(source, path, texts.NO_PLACE, name)
            continue
        for known in [known for known in source.origins if known[: len(path)] == path]:
            del source.origins[known]
        source.origins[path] = texts.VARIABLE.format(name=name)
        source.from_environment.add(path)


def _fault(source: Source, path: Path_, problem: str, variable: str) -> None:
    origin = texts.VARIABLE.format(name=variable)
    source.problems.append(texts.PROBLEM.format(where=dotted(path), problem=problem, origin=origin))


def _trim(source: Source) -> list[str]:
    warnings: list[str] = []

    def walk(value: Any, path: Path_) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and path and path[-1] in _TRIMMED:
            clean = value.strip().strip(_INVISIBLE).strip()
            if clean != value:
                source.raw[path] = clean
                where = label(source.data, path)
                warnings.append(texts.TRIMMED.format(where=where, origin=source.origin(path)))
            return clean
        return value

    source.data = walk(source.data, ())
    return warnings


def _resolve_paths(source: Source, base: Path) -> None:
    data = source.data
    given = "data_dir" in data
    data.setdefault("data_dir", "data")
    for key in ("data_dir", "verify_dir", "test_clock"):
        if isinstance(data.get(key), str):
            here = Path.cwd() if (key,) in source.from_environment and given else base
            data[key] = str(here / Path(data[key]).expanduser())
    url = data.get("database_url")
    if isinstance(url, str) and url.startswith("sqlite:///") and not url.startswith("sqlite:////"):
        data["database_url"] = f"sqlite:///{base / url.removeprefix('sqlite:///')}"
    for tenant in data.get("tenants") or [] if isinstance(data.get("tenants"), list) else []:
        tools = tenant.get("tools") if isinstance(tenant, dict) else None
        for section, key in (("logs", "path"), ("hosts", "identity_file")):
            for item in (tools.get(section) or []) if isinstance(tools, dict) else []:
                if isinstance(item, dict) and isinstance(item.get(key), str):
                    item[key] = str(base / Path(item[key]).expanduser())


# the demo ---------------------------------------------------------------------------------------------------------------


def _demo_ran(source: Source) -> bool:
    return not source.data.get("tenants") and (Path(source.data["data_dir"]) / "run" / DEMO_STATE).is_file()


def _fill_demo(source: Source, environ: Mapping[str, str]) -> None:
    from config.demo import demo_tenant

    data = source.data
    data_dir = Path(data["data_dir"])
    try:
        state = json.loads((data_dir / "run" / DEMO_STATE).read_text())
    except (OSError, ValueError):
        state = {}
    port = environ.get("YIZHAN_SIM_PORT") or state.get("sim_port") or SIM_PORT
    for section, key in (("http", "http_port"), ("admin", "admin_port")):
        if isinstance(data.setdefault(section, {}), dict) and state.get(key):
            data[section].setdefault("port", state[key])
    if not data.get("tenants"):
        data["tenants"] = [demo_tenant(f"http://127.0.0.1:{port}", data_dir)]
    clock = data_dir / "run" / "clock"
    if not data.get("test_clock") and clock.is_file():
        data["test_clock"] = str(clock)  # operators' commands see the time that the demo plays
    http = data.get("http")
    if isinstance(http, dict) and not http.get("public_url") and str(http.get("port", 8080)) != "0":
        http["public_url"] = f"http://127.0.0.1:{http.get('port', 8080)}"


def _check_demo(settings: Settings, source: Source) -> None:
    from config.demo import DEMO_APP_IDS

    for name, listen in (("http", settings.http), ("admin", settings.admin)):
        if not is_loopback(listen.host):
            source.add((name, "host"), texts.DEMO_LOOPBACK)
    for tenant_index, tenant in enumerate(settings.tenants):
        for index, account in enumerate(tenant.accounts):
            path: Path_ = ("tenants", tenant_index, "accounts", index)
            app_id = account.corp_id if account.platform == "wecom" else account.app_id
            host = urlsplit(account.api_base or "").hostname
            if app_id not in DEMO_APP_IDS or host is None or not is_loopback(host):
                where = texts.ACCOUNT.format(id=account.id)
                source.problems.append(texts.PROBLEM.format(where=where, problem=texts.DEMO_REAL, origin=source.origin(path)))
    raise_problems(source)


def is_loopback(host: str) -> bool:
    """Whether this host name or address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _register_secrets(settings: Settings) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, SecretStr):
            register_secret(value.get_secret_value())
        elif isinstance(value, BaseModel):
            for name in type(value).model_fields:
                item = getattr(value, name)
                walk(SecretStr(item) if name == "callback_token" else item)
        elif isinstance(value, Mapping):
            for item in value.values():
                walk(item)
        elif isinstance(value, tuple | list):
            for item in value:
                walk(item)

    walk(settings)
    for url in (settings.database_url, settings.redis_url, settings.qdrant_url):
        register_secret(urlsplit(url).password if url else None)
