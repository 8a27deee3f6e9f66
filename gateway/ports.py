"""The addresses we listen on: how they are called, and what is said about one that cannot be had."""

from __future__ import annotations

import errno

from config.errors import SettingsError
from config.schema import Listen
from gateway import up_texts

_OPTIONS = {
    "http": ("--port", "YIZHAN_HTTP__PORT"),
    "admin": ("--admin-port", "YIZHAN_ADMIN__PORT"),
    "sim": ("--sim-port", "YIZHAN_SIM_PORT"),
}


def port_error(name: str, listen: Listen, error: OSError) -> SettingsError:
    """The error for one of the addresses http, admin, sim; its code is port_busy or port_refused."""
    option, variable = _OPTIONS[name]
    if error.errno == errno.EADDRINUSE:
        text = up_texts.PORT_BUSY.format(name=name, port=listen.port, option=option, variable=variable)
        return SettingsError(text, code="port_busy")
    text = up_texts.PORT_REFUSED.format(name=name, host=listen.host, port=listen.port, reason=error.strerror)
    return SettingsError(text, code="port_refused")


def address(listen: Listen) -> str:
    """A URL of this machine for a listening address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.host, f"[{listen.host}]" if ":" in listen.host else listen.host)  # noqa: S104
    return f"http://{host}:{listen.port}"
