"""Nothing on the inside can be reached by a URL somebody writes (N-20)."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from gateway.media import egress_for
from tests.fakes.platform import Platform, serve
from tools.egress import Egress, EgressFailed, EgressRefused, is_public


async def _bytes(egress: Egress, url: str, *, said: str = "", max_bytes: int = 1000) -> bytes:
    async with egress.fetch(url, said=said, max_bytes=max_bytes) as found:
        return b"".join([chunk async for chunk in found.chunks])


@pytest.fixture
async def server() -> AsyncIterator[Platform]:
    async with serve(Platform()) as running:
        running.answers["/ok"] = lambda _r, _b: web.Response(body=b"fine")
        running.answers["/big"] = lambda _r, _b: web.Response(body=b"x" * 5000)
        yield running


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
        *("::1", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "::", "255.255.255.255", "240.0.0.1"),
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
def test_n20_inner_addresses_are_not_public(address: str) -> None:
    """N-20: private, loopback, link-local, carrier, mapped and tunnelled forms."""
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["101.226.103.1", "2606:4700::1111", "64:ff9b::65e2:6701"])
def test_n20_public_addresses_are(address: str) -> None:
    """N-20: and the rest is."""
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/x", "http://localhost/x", "http://[::1]/x", "http://169.254.169.254/latest/meta-data"),
        *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/"),
        *("ftp://e.com/x", "file:///etc/passwd", "http://user:pw@e.com/", "http:///x", "gopher://e.com", "not a url"),
        "http://example.com:22/",
    ],
)
async def test_n20_a_verbatim_url_does_not_open_the_inside(url: str) -> None:
    """N-20: also when the person wrote it."""
    with pytest.raises((EgressRefused, EgressFailed)) as caught:
        await _bytes(Egress(), url, said=f"看看 {url} 谢谢")
    assert isinstance(caught.value, EgressRefused)


async def test_n20_only_listed_hosts_or_verbatim_urls(server: Platform) -> None:
    """N-20: the same address is fetched when the person wrote it, and not when somebody else came up with it."""
    url = f"{server.base}/ok"
    loopback = Egress(allow_loopback=True)
    with pytest.raises(EgressRefused):
        await _bytes(loopback, url)
    with pytest.raises(EgressRefused):
        await _bytes(loopback, url, said=f"看看 {server.base}/other")
    assert await _bytes(loopback, url, said=f"看看这个：{url}，谢谢") == b"fine"
    assert await _bytes(Egress(["127.0.0.1"], allow_loopback=True), url) == b"fine"
    assert [path for path, _, _ in server.requests] == ["/ok", "/ok"]


async def test_n20_a_name_that_leads_inside_is_refused(server: Platform) -> None:
    """N-20: the name is allowed, its address is not: judged after resolution, and the vetted address is the one used."""
    port = server.base.rsplit(":", 1)[1]
    with pytest.raises(EgressRefused):
        await _bytes(Egress([f"localhost:{port}"]), f"http://localhost:{port}/ok")
    assert server.requests == []
    assert await _bytes(Egress([f"localhost:{port}"], allow_loopback=True), f"http://localhost:{port}/ok") == b"fine"


@pytest.mark.parametrize("target", ["http://169.254.169.254/", "http://10.0.0.1/x", "file:///etc/passwd", "//[::1]:1/x"])
async def test_n20_redirects_are_checked(server: Platform, target: str) -> None:
    """N-20: a good address that redirects inside is refused."""
    server.answers["/go"] = lambda _r, _b: web.Response(status=302, headers={"Location": target})
    egress = Egress(["127.0.0.1"], allow_loopback=True)
    with pytest.raises(EgressRefused):
        await _bytes(egress, f"{server.base}/go")


async def test_n20_redirects_within_the_host_are_followed_a_few_times(server: Platform) -> None:
    """N-20: relative redirects work, loops end."""
    server.answers["/go"] = lambda _r, _b: web.Response(status=302, headers={"Location": "/ok"})
    server.answers["/loop"] = lambda _r, _b: web.Response(status=302, headers={"Location": "/loop"})
    egress = Egress(["127.0.0.1"], allow_loopback=True)
    assert await _bytes(egress, f"{server.base}/go") == b"fine"
    with pytest.raises(EgressFailed):
        await _bytes(egress, f"{server.base}/loop")


async def test_n20_bytes_are_capped_with_and_without_a_declared_length(server: Platform) -> None:
    """N-20: the cap holds while reading too."""

    async def endless(request: web.Request, _body: bytes) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"x" * 1000)
        return response

    server.answers["/endless"] = endless
    egress = Egress(["127.0.0.1"], allow_loopback=True)
    for path in ("/big", "/endless"):
        with pytest.raises(EgressFailed) as caught:
            await _bytes(egress, server.base + path)
        assert caught.value.code == "too_large"


def test_n20_the_platforms_media_hosts_are_allowed_and_look_alikes_are_not() -> None:
    """N-20: PicUrl and video_url of the platforms only."""
    egress = egress_for(["files.example.com"])
    assert egress.allows("http://mmbiz.qpic.cn/x")
    assert egress.allows("https://files.example.com/x")
    for url in (
        "http://qpic.cn.evil.com/x",
        "http://evilqq.com/",
        "http://203.0.113.9/video.mp4",
        "https://sub.files.example.com/",
    ):
        assert not egress.allows(url)
