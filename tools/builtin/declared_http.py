"""The internal HTTP systems a tenant declares in its settings (work orders and the like)."""

from __future__ import annotations

from config.schema import Settings, Tenant
from tools.base import Tool
from tools.http import http_tool


def build(settings: Settings, tenant: Tenant) -> list[Tool]:
    """One tool an entry of ``tools.http``."""
    return [http_tool(spec, tenant) for spec in tenant.tools.http]
