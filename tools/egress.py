"""Calls to the internal systems the settings name: allow-listed hosts, the vetted address pinned, bytes capped (N-20)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from config.errors import YizhanError

MAX_BYTES = 1024 * 1024
_MAX_REDIRECTS = 3
_PORTS = {"http": 80, "https": 443}


class EgressRefused(YizhanError):
    """The address is not one the settings allow; nothing was sent."""

    code = "egress_refused"


class EgressFailed(YizhanError):
    """The other side could not be reached or did not answer properly. ``sent`` is False when nothing can have arrived."""

    code = "egress_failed"

    def __init__(self, message: str, *, sent: bool, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: status, content type and at most ``max_bytes`` of body."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Vetted:
    """A URL that may be called, with the addresses it resolved to when it was vetted."""

    url: str
    host: str
    addresses: tuple[str, ...]


class _Pinned(AbstractResolver):
    """Answers only what was vetted, so the name cannot point elsewhere by the time of the call."""

    def __init__(self, vetted: Vetted) -> None:
        self._vetted = vetted

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        """The vetted addresses, for the vetted host only."""
        if host != self._vetted.host:
            raise OSError(f"{host} was not vetted")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._vetted.addresses
        ]

    async def close(self) -> None:
        """Nothing to close."""


async def vet(url: str, allow_hosts: Collection[str]) -> Vetted:
    """Check a URL and pin its addresses: only hosts in ``allow_hosts`` (``name`` or ``name:port``), which may be inside the
    company, and never a URL with credentials. Raises EgressRefused."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    try:
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        raise EgressRefused("the port is no number") from None
    if parts.scheme not in _PORTS or not host or parts.username is not None or parts.password is not None:
        raise EgressRefused("only plain http and https URLs")
    allowed = {name.lower() for name in allow_hosts}
    if host not in allowed and f"{host}:{port}" not in allowed:
        raise EgressRefused("the host is not on the allow list")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise EgressFailed("the name does not resolve", sent=False, code="unresolved") from None
    addresses = tuple(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    return Vetted(url, host, addresses)


async def fetch(
    method: str,
    url: str,
    *,
    allow_hosts: Collection[str],
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    timeout_s: float = 10.0,
    max_bytes: int = MAX_BYTES,
) -> Fetched:
    """One request to a vetted address; redirects of a GET are vetted like the first URL and carry no headers to another
    host. Raises EgressRefused, EgressFailed (too_large, timeout, ...)."""
    sent_headers = dict(headers or {})
    for _ in range(_MAX_REDIRECTS + 1):
        vetted = await vet(url, allow_hosts)
        fetched, location = await _once(method, vetted, sent_headers, json, timeout_s, max_bytes)
        if location is None:
            return fetched
        if method not in ("GET", "HEAD"):
            raise EgressFailed("a write was answered with a redirect", sent=True, code="redirected")
        target = urljoin(url, location)
        if urlsplit(target).netloc != urlsplit(url).netloc:
            sent_headers = {}
        url = target
    raise EgressFailed("too many redirects", sent=True, code="redirected")


async def _once(
    method: str, vetted: Vetted, headers: Mapping[str, str], json: Any, timeout_s: float, max_bytes: int
) -> tuple[Fetched, str | None]:
    connector = aiohttp.TCPConnector(resolver=_Pinned(vetted), use_dns_cache=False, force_close=True)
    timeout = aiohttp.ClientTimeout(total=timeout_s, connect=min(4.0, timeout_s))
    url = URL(_ascii(vetted.url), encoded=True)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session,
            session.request(method, url, headers=headers, json=json, allow_redirects=False) as response,
        ):
            location = response.headers.get("Location") if response.status in (301, 302, 303, 307, 308) else None
            return Fetched(response.status, response.content_type, await _read(response, max_bytes)), location
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL):
        raise EgressFailed("the other side cannot be reached", sent=False, code="unreachable") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EgressFailed(f"no proper answer: {type(error).__name__}", sent=True, code="no_answer") from None


def _ascii(url: str) -> str:
    """The URL as it goes over the wire; what is encoded already stays exactly as it is."""
    return quote(url, safe="%/:?&=#[]@!$'()*+,;~-._")


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(16_384):
        body += chunk
        if len(body) > max_bytes:
            raise EgressFailed("the answer is too large", sent=True, code="too_large")
    return bytes(body)
