"""The addresses we listen on: how they are called, and what is said about one that cannot be had."""

from __future__ import annotations

import errno

from config.errors import SettingsError
from config.schema import Listen

_OPTIONS = {
    "http": ("--port", "YIZHAN_HTTP__PORT"),
    "admin": ("--admin-port", "YIZHAN_ADMIN__PORT"),
    "sim": ("--sim-port", "YIZHAN_SIM_PORT"),
}


def port_error(name: str, listen: Listen, error: OSError) -> SettingsError:
    """The error for one of the addresses http, admin, sim; its code is port_busy or port_refused."""
    option, variable = _OPTIONS[name]
    if error.errno == errno.EADDRINUSE:
        text = f"{name}.port：端口 {listen.port} 已被别的程序占用；换一个：yizhan up {option} 端口，或环境变量 {variable}"
        return SettingsError(text, code="port_busy")
    return SettingsError(f"{name}：不能监听 {listen.host}:{listen.port}（{error.strerror}）", code="port_refused")


def address(listen: Listen) -> str:
    """A URL of this machine for a listening address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.host, f"[{listen.host}]" if ":" in listen.host else listen.host)  # noqa: S104
    return f"http://{host}:{listen.port}"
