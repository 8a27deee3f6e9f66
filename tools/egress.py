"""The one way out: listed hosts or verbatim URLs only, vetted addresses pinned, redirects vetted again, bytes capped (N-20)."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from config.errors import YizhanError
from tools import texts

MAX_BYTES = 1024 * 1024
"""The cap of one answer of ``call``."""
_CONNECT_S = 4.0
_DOWNLOAD_S = 60.0
_STALL_S = 15.0
_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_URLS = re.compile(r"https?://[^\s<>\"'，。；！？、（）「」『』【】《》\u3000]+", re.IGNORECASE)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_CARRIER = ipaddress.ip_network("100.64.0.0/10")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class EgressRefused(YizhanError):
    """This address may not be reached; nothing was sent to it."""

    code = "egress_refused"
    user_text = texts.EGRESS_REFUSED


class EgressFailed(YizhanError):
    """The other side could not be reached or did not answer properly. ``sent`` is False when nothing can have arrived."""

    code = "egress_failed"
    retryable = True
    user_text = texts.EGRESS_FAILED

    def __init__(self, message: str, *, sent: bool = True, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is being read: ``chunks`` yields at most the allowed bytes, then raises EgressFailed (too_large)."""

    content_type: str
    file_name: str | None
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer: status, content type and at most ``max_bytes`` of body."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Vetted:
    """A URL that may be requested, with the addresses its name had when it was vetted; no others are connected to."""

    url: URL
    addresses: tuple[str, ...]


class Egress:
    """``allow_hosts``: exact names, ``.example.com`` for all names below, ``host:port`` for one port.

    Addresses must be public and ports 80 or 443 unless the port is listed. ``inside=True`` is for lists an operator wrote:
    listed names may have any address and, where no port is listed, any port. ``allow_loopback`` lets tests and the demo
    reach servers on this machine; never set it elsewhere.
    """

    def __init__(self, allow_hosts: Iterable[str] = (), *, inside: bool = False, allow_loopback: bool = False) -> None:
        self._allowed = tuple(host.lower().rstrip(".") for host in allow_hosts)
        self._inside = inside
        self._allow_loopback = allow_loopback

    @contextlib.asynccontextmanager
    async def fetch(self, url: str, *, said: str = "", max_bytes: int) -> AsyncIterator[Fetched]:
        """GET a file if its host is listed or the URL stands verbatim in ``said``, the person's own message.

        A verbatim URL may only lead to its own host or a listed one. Raises EgressRefused, EgressFailed (also when the
        status is not 200).
        """
        timeout = aiohttp.ClientTimeout(total=_DOWNLOAD_S, connect=_CONNECT_S, sock_connect=_CONNECT_S, sock_read=_STALL_S)
        async with self._open("GET", url, said=said, timeout=timeout) as response:
            if response.status != 200:
                raise EgressFailed(f"the server answered {response.status}")
            yield _fetched(response, max_bytes)

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        timeout_s: float = 10.0,
        max_bytes: int = MAX_BYTES,
    ) -> HttpAnswer:
        """One request to a listed host; any status is an answer. Only GET and HEAD follow redirects, and ``headers`` stay
        behind when scheme, host or port changes. Raises EgressRefused, EgressFailed (too_large, redirected, ...)."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=min(_CONNECT_S, timeout_s))
        async with self._open(method, url, headers=headers, json=json, timeout=timeout) as response:
            body = b"".join([chunk async for chunk in capped(response, max_bytes)])
            return HttpAnswer(response.status, response.content_type, body)

    @staticmethod
    def is_verbatim(url: str, said: str) -> bool:
        """Whether ``url`` is one of the URLs in the message, as written."""
        return url in {found.rstrip(".,;:!?)") for found in _URLS.findall(said)} | set(_URLS.findall(said))

    def allows(self, url: str) -> bool:
        """Whether the URL's host is listed; its address is judged when it is fetched."""
        try:
            return self._is_listed(_target(url))
        except EgressRefused:
            return False

    async def vet(self, url: str, *, verbatim_host: str | None = None) -> Vetted:
        """Check a URL and pin its addresses; one address that may not be reached refuses the name (it is a trap).

        ``verbatim_host`` is allowed although it is not listed. Raises EgressRefused, EgressFailed (unresolved).
        """
        target = _target(url)
        listed = self._is_listed(target)
        if not listed and not (_host(target) == verbatim_host and self._is_usual_port(target)):
            raise EgressRefused("the host is not allowed")
        addresses = await _resolved(_host(target), target.port or 0)
        if not (listed and self._inside) and not all(self._is_reachable(address) for address in addresses):
            raise EgressRefused("the address is not public")
        return Vetted(target, addresses)

    def _is_listed(self, target: URL) -> bool:
        for name in {_host(target), (target.host or "").lower().rstrip(".")}:  # as sent, and as written
            spelled = [f"{name}:{target.port}"]
            if self._inside or self._is_usual_port(target):
                spelled.append(name)
            if any(one == host or (host.startswith(".") and one.endswith(host)) for one in spelled for host in self._allowed):
                return True
        return False

    def _is_usual_port(self, target: URL) -> bool:
        return target.port in (80, 443) or self._allow_loopback

    def _is_reachable(self, address: str) -> bool:
        parsed = ipaddress.ip_address(address)
        return (self._allow_loopback and parsed.is_loopback) or is_public(parsed)

    @contextlib.asynccontextmanager
    async def _open(
        self,
        method: str,
        url: str,
        *,
        timeout: aiohttp.ClientTimeout,
        said: str = "",
        headers: Mapping[str, str] | None = None,
        json: Any = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer behind at most three redirects, each vetted like the first URL and connected to on its own."""
        verbatim_host = _host(_target(url)) if self.is_verbatim(url, said) else None
        vetted = await self.vet(url, verbatim_host=verbatim_host)
        headers = dict(headers or {})
        for _ in range(_MAX_REDIRECTS + 1):
            async with _session(vetted, timeout) as session:
                response = await _send(session, method, vetted.url, headers, json)
                try:
                    location = response.headers.get("Location") if response.status in _REDIRECTS else None
                    if not location:
                        yield response
                        return
                finally:
                    response.close()
            if method not in ("GET", "HEAD"):
                raise EgressFailed("a write was answered with a redirect", code="redirected")
            before = vetted.url
            vetted = await self.vet(_joined(before, location), verbatim_host=verbatim_host)
            headers = carried(headers, before, vetted.url)
        raise EgressFailed("too many redirects", code="too_many_redirects")


def carried(headers: Mapping[str, str], source: URL, target: URL) -> Mapping[str, str]:
    """The headers that go along with a redirect: all within one scheme, host and port, else none (they hold secrets)."""
    same = (source.scheme, _host(source), source.port) == (target.scheme, _host(target), target.port)
    return headers if same else {}


def is_public(address: _Address) -> bool:
    """Whether an address is on the public internet; mapped, translated and tunnelled forms are judged by what they carry."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    elif address in _CARRIER:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


async def capped(response: aiohttp.ClientResponse, max_bytes: int) -> AsyncIterator[bytes]:
    """The body in chunks; raises EgressFailed past ``max_bytes`` or when the connection breaks."""
    total = 0
    try:
        async for chunk in response.content.iter_chunked(65_536):
            total += len(chunk)
            if total > max_bytes:
                raise EgressFailed(f"the content has more than {max_bytes} bytes", code="too_large")
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EgressFailed(f"the answer broke off: {type(error).__name__}", code="no_answer") from None


def _fetched(response: aiohttp.ClientResponse, max_bytes: int) -> Fetched:
    declared = response.content_length
    if declared is not None and declared > max_bytes:
        raise EgressFailed(f"the content has {declared} bytes, more than {max_bytes}", code="too_large")
    name = response.content_disposition.filename if response.content_disposition else None
    return Fetched(response.content_type, name, capped(response, max_bytes))


def _target(url: str) -> URL:
    """The URL as it goes over the wire; what is encoded already stays exactly as it is. Raises EgressRefused."""
    try:
        given, raw = URL(url), urlsplit(url)
        if given.scheme not in ("http", "https") or not given.raw_host or "@" in given.raw_authority:
            raise EgressRefused("only http and https addresses without credentials may be reached")
        query = f"?{_ascii(raw.query)}" if raw.query else ""
        target = URL(f"{given.scheme}://{given.raw_authority}/{_ascii(raw.path).removeprefix('/')}{query}", encoded=True)
        host = _host(target)
        if ":" in host or host.replace(".", "").isdigit():  # connected to without asking a resolver: no odd spellings
            ipaddress.ip_address(host)
    except ValueError:
        raise EgressRefused("not a URL") from None
    return target


def _ascii(part: str) -> str:
    return quote(part, safe="%/:?&=#[]@!$'()*+,;~-._")


def _host(url: URL) -> str:
    return (url.raw_host or "").lower().rstrip(".")


def _joined(source: URL, location: str) -> str:
    try:
        return urljoin(str(source), location)
    except ValueError:
        raise EgressRefused("the redirect leads to no URL") from None


async def _resolved(host: str, port: int) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(_CONNECT_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        raise EgressFailed("the name does not resolve", sent=False, code="unresolved") from None
    return tuple(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def _session(vetted: Vetted, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(resolver=_Pinned(vetted), use_dns_cache=False, force_close=True)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, timeout=timeout)


async def _send(
    session: aiohttp.ClientSession, method: str, url: URL, headers: Mapping[str, str], json: Any
) -> aiohttp.ClientResponse:
    sent_headers = {"Accept-Encoding": "identity", **headers}
    try:
        return await session.request(method, url, headers=sent_headers, json=json, allow_redirects=False)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL):
        raise EgressFailed("the other side cannot be reached", sent=False, code="unreachable") from None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise EgressFailed(f"no proper answer: {type(error).__name__}", code="no_answer") from None


class _Pinned(AbstractResolver):
    """Answers only what was vetted, so the name cannot point elsewhere by the time of the call."""

    def __init__(self, vetted: Vetted) -> None:
        self._vetted = vetted

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        """The vetted addresses, for the vetted host only."""
        if host.lower().rstrip(".") != _host(self._vetted.url):
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
