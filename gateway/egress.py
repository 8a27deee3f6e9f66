"""Fetches a URL for a person without being led astray: allow-listed hosts or verbatim URLs only, vetted addresses only."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from config.errors import YizhanError

_TIMEOUT = aiohttp.ClientTimeout(total=60, connect=5, sock_connect=5, sock_read=15)
_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_URLS = re.compile(r"https?://[^\s<>\"'，。；！？、（）「」『』【】《》\u3000]+", re.IGNORECASE)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_CARRIER = ipaddress.ip_network("100.64.0.0/10")


class EgressRefused(YizhanError):
    """This address may not be fetched."""

    code = "egress_refused"
    user_text = "这个地址不在允许访问的范围内。"


class EgressFailed(YizhanError):
    """The address did not give what was asked for."""

    code = "egress_failed"
    retryable = True
    user_text = "没能取到这个地址的内容，请稍后再试。"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response that is being read: ``chunks`` yields at most the allowed bytes, then raises EgressFailed (too_large)."""

    content_type: str
    file_name: str | None
    chunks: AsyncIterator[bytes]


class Egress:
    """``allow_hosts``: exact names, ``.example.com`` for all names below, ``host:port`` for another port than 80 and 443.

    ``allow_loopback`` lets tests reach servers on this machine; never set it elsewhere.
    """

    def __init__(self, allow_hosts: Iterable[str] = (), *, allow_loopback: bool = False) -> None:
        self._allowed = tuple(host.lower().rstrip(".") for host in allow_hosts)
        self._allow_loopback = allow_loopback

    @contextlib.asynccontextmanager
    async def fetch(self, url: str, *, said: str = "", max_bytes: int) -> AsyncIterator[Fetched]:
        """GET ``url`` if its host is allow-listed or the URL stands verbatim in ``said``, the person's own message.

        Every redirect is checked like the first address (a verbatim URL may only lead to its own host or an allow-listed
        one), and each connection goes to an address that was vetted. Raises EgressRefused, EgressFailed.
        """
        verbatim = self.is_verbatim(url, said)
        target = self._check(url, verbatim_host=_host_of(url) if verbatim else None)
        verbatim_host = target.host if verbatim else None
        async with self._session() as session:
            for _ in range(_MAX_REDIRECTS + 1):
                response = await self._get(session, target)
                try:
                    if response.status not in _REDIRECTS:
                        yield _fetched(response, max_bytes)
                        return
                    location = response.headers.get("Location", "")
                finally:
                    response.close()
                target = self._check(str(target.join(URL(location))) if location else "", verbatim_host=verbatim_host)
        raise EgressFailed("too many redirects", code="too_many_redirects")

    @staticmethod
    def is_verbatim(url: str, said: str) -> bool:
        """Whether ``url`` is one of the URLs in the message, as written."""
        return url in {found.rstrip(".,;:!?)") for found in _URLS.findall(said)} | set(_URLS.findall(said))

    def allows(self, url: str) -> bool:
        """Whether the URL's host is allow-listed."""
        try:
            self._check(url, verbatim_host=None)
        except EgressRefused:
            return False
        return True

    def _check(self, url: str, *, verbatim_host: str | None) -> URL:
        try:
            target = URL(url)
            host, port = (target.host or "").lower().rstrip("."), target.port
        except ValueError:
            raise EgressRefused("not a URL") from None
        if target.scheme not in ("http", "https") or not host or target.user or target.password:
            raise EgressRefused("only http and https addresses without credentials may be fetched")
        if not self._host_allowed(host, port) and not (host == verbatim_host and self._port_ok(port)):
            raise EgressRefused("the host is not allowed")
        literal = _literal(host)
        if literal is not None and not self._address_ok(literal):
            raise EgressRefused("the address is not public")
        return target

    def _host_allowed(self, host: str, port: int | None) -> bool:
        for allowed in self._allowed:
            name, _, given = allowed.partition(":")
            right_port = str(port) == given if given else self._port_ok(port)
            if right_port and (host == name or (name.startswith(".") and host.endswith(name))):
                return True
        return False

    def _port_ok(self, port: int | None) -> bool:
        return port in (80, 443) or self._allow_loopback

    def _address_ok(self, address: _Address) -> bool:
        if self._allow_loopback and address.is_loopback:
            return True
        return is_public(address)

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=_VettedResolver(self._address_ok), use_dns_cache=False, force_close=True, limit=4
        )
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, timeout=_TIMEOUT, auto_decompress=False
        )

    async def _get(self, session: aiohttp.ClientSession, target: URL) -> aiohttp.ClientResponse:
        try:
            response = await session.get(target, allow_redirects=False, headers={"Accept-Encoding": "identity"})
        except EgressRefused:
            raise
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            cause = error.__cause__ or error
            if isinstance(cause, _Forbidden) or isinstance(error, _Forbidden):
                raise EgressRefused("the host's address is not public") from None
            raise EgressFailed(f"the fetch failed: {type(error).__name__}") from None
        if response.status not in _REDIRECTS and response.status != 200:
            response.close()
            raise EgressFailed(f"the server answered {response.status}")
        return response


class _Forbidden(OSError):
    """A name that leads to an address which may not be reached."""


class _VettedResolver(AbstractResolver):
    """Resolves a name once and hands out vetted addresses only; aiohttp connects to exactly these."""

    def __init__(self, address_ok: Callable[[_Address], bool]) -> None:
        self._address_ok = address_ok

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        """All vetted addresses of the name; raises when any of them is not public (a name with both is a trap)."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        results: list[ResolveResult] = []
        for kind, _, protocol, _, address in found:
            ip = str(address[0])
            if not self._address_ok(ipaddress.ip_address(ip.split("%", 1)[0])):
                raise _Forbidden("the name leads to an address that is not public")
            flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            results.append(ResolveResult(hostname=host, host=ip, port=port, family=kind, proto=protocol, flags=flags))
        return results

    async def close(self) -> None:
        """Nothing is held."""


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


def _literal(host: str) -> _Address | None:
    """The address a host name spells, also in the odd forms the system's resolver takes (0x7f.1, 2130706433)."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.split("%", 1)[0])
    if re.fullmatch(r"[0-9a-fx.]+", host) and not re.search(r"[a-z]{2,}$", host):
        with contextlib.suppress(OSError):
            return ipaddress.IPv4Address(socket.inet_aton(host))
    return None


def _host_of(url: str) -> str | None:
    try:
        return (URL(url).host or "").lower().rstrip(".") or None
    except ValueError:
        return None


def _fetched(response: aiohttp.ClientResponse, max_bytes: int) -> Fetched:
    declared = response.content_length
    if declared is not None and declared > max_bytes:
        raise EgressFailed(f"the content has {declared} bytes, more than {max_bytes}", code="too_large")
    name = response.content_disposition.filename if response.content_disposition else None
    return Fetched(response.content_type, name, capped(response, max_bytes))


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
        raise EgressFailed(f"the fetch broke off: {type(error).__name__}") from None
