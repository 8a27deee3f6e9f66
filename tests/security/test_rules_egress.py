"""Egress of tools and media: names that change their mind, redirects, encoded segments, arguments (N-20)."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from yarl import URL

from config.schema import HttpTool, ScriptArgument, ScriptPreset, Tenant
from tests.fakes.platform import Handler, Platform, serve
from tools.base import ToolFailed, ToolRefused
from tools.egress import Egress, EgressFailed, EgressRefused
from tools.http import fill_url, http_tool

_REAL = socket.getaddrinfo


class Names:
    """A name server that changes its mind: the n-th question about ``rebind.test`` gets the n-th address."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.asked = 0

    async def getaddrinfo(self, host: str, port: int, **more: Any) -> list[Any]:
        """Like the loop's."""
        if host != "rebind.test":
            return await asyncio.to_thread(_REAL, host, port, more.get("family", 0), more.get("type", 0))
        address = self.addresses[min(self.asked, len(self.addresses) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """This loop's resolver."""
    made = Names()
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", made.getaddrinfo)
    return made


@pytest.fixture
async def server() -> AsyncIterator[Platform]:
    """A server on loopback."""
    async with serve(Platform()) as running:
        running.answers["/ok"] = lambda _r, _b: web.Response(body=b"fine")
        yield running


async def test_n_20_a_tools_name_is_asked_once_and_its_answer_pinned(names: Names, server: Platform) -> None:
    """N-20: the address that was vetted is the one connected to, whatever the name says a moment later."""
    names.addresses = ["127.0.0.1", "203.0.113.1"]
    port = server.base.rsplit(":", 1)[1]
    fetched = await Egress([f"rebind.test:{port}"], inside=True).call("GET", f"http://rebind.test:{port}/ok", timeout_s=5)
    assert (fetched.status, fetched.body, names.asked) == (200, b"fine", 1)


async def test_n_20_a_fetched_name_is_vetted_at_the_connection(names: Names, server: Platform) -> None:
    """N-20: a name that was public when somebody looked and leads inside at the call is refused; nothing is sent."""
    names.addresses = ["127.0.0.1"]
    url = "http://rebind.test/ok"
    with pytest.raises(EgressRefused):
        async with Egress().fetch(url, said=f"看 {url}", max_bytes=100):
            pass
    assert names.asked == 1
    assert server.requests == []


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_n_20_every_redirect_of_a_tool_is_vetted(server: Platform, code: int) -> None:
    """N-20: to a listed host it is followed, without the secret headers when the host is another; to any other it is refused."""
    port = server.base.rsplit(":", 1)[1]
    here, other = f"127.0.0.1:{port}", f"localhost:{port}"
    server.answers["/go"] = lambda _r, _b: web.Response(status=code, headers={"Location": f"http://{other}/seen"})
    seen: list[str | None] = []

    def note(request: web.Request, _body: bytes) -> web.Response:
        seen.append(request.headers.get("X-Key"))
        return web.Response(body=b"{}")

    server.answers["/seen"] = note
    call: dict[str, Any] = {"headers": {"X-Key": "secret"}, "timeout_s": 5}
    await Egress([here, other], inside=True).call("GET", f"http://{here}/go", **call)
    assert seen == [None]
    with pytest.raises(EgressRefused):
        await Egress([here], inside=True).call("GET", f"http://{here}/go", **call)
    with pytest.raises(EgressFailed, match="redirect"):
        await Egress([here, other], inside=True).call("POST", f"http://{here}/go", **call)
    assert seen == [None]


async def test_n_20_secret_headers_go_along_at_home_and_do_not_come_back(server: Platform) -> None:
    """N-20: a redirect within the host keeps them; once another host was asked they are gone, also on the way back."""
    port = server.base.rsplit(":", 1)[1]
    here, other = f"127.0.0.1:{port}", f"localhost:{port}"
    seen: list[tuple[str, str | None]] = []

    def hop(target: str) -> Handler:
        def answer(request: web.Request, _body: bytes) -> web.Response:
            seen.append((request.path, request.headers.get("X-Key")))
            return web.Response(status=302, headers={"Location": target}) if target else web.Response(body=b"{}")

        return answer

    server.answers.update({"/1": hop("/2"), "/2": hop(f"http://{other}/3"), "/3": hop(f"http://{here}/4"), "/4": hop("")})
    answer = await Egress([here, other], inside=True).call("GET", f"http://{here}/1", headers={"X-Key": "secret"})
    assert (answer.status, seen) == (200, [("/1", "secret"), ("/2", "secret"), ("/3", None), ("/4", None)])


async def test_n_20_a_packed_answer_is_capped_unpacked(server: Platform) -> None:
    """N-20: a few packed bytes that become many are as large as what they become."""
    packed = gzip.compress(b"0" * 5_000_000)
    server.answers["/packed"] = lambda _r, _b: web.Response(body=packed, headers={"Content-Encoding": "gzip"})
    egress = Egress(["127.0.0.1"], inside=True)
    with pytest.raises(EgressFailed) as called:
        await egress.call("GET", f"{server.base}/packed", max_bytes=len(packed))
    with pytest.raises(EgressFailed) as fetched:
        async with egress.fetch(f"{server.base}/packed", max_bytes=len(packed)) as found:
            [chunk async for chunk in found.chunks]
    assert (called.value.code, fetched.value.code) == ("too_large", "too_large")


async def test_n_20_a_tools_answer_is_capped(server: Platform) -> None:
    """N-20: bytes are capped."""
    server.answers["/big"] = lambda _r, _b: web.Response(body=b"x" * 5000)
    with pytest.raises(EgressFailed) as caught:
        await Egress(["127.0.0.1"], inside=True).call("GET", f"{server.base}/big", max_bytes=1000)
    assert caught.value.code == "too_large"


_TEMPLATE = "https://internal.example/orders/{order}/lines?lang={lang}&fixed=1"


@given(order=st.text(min_size=1, max_size=40), lang=st.text(max_size=40))
def test_n_20_a_value_is_one_encoded_segment(order: str, lang: str) -> None:
    """N-20: no value adds a segment, a dot segment, a parameter or a fragment, or leaves the host; it arrives as it was."""
    try:
        filled = fill_url(_TEMPLATE, {"order": order, "lang": lang})
    except (ToolFailed, UnicodeEncodeError):
        assert order.strip() in ("", ".", "..") or any("\ud800" <= letter <= "\udfff" for letter in order + lang)
        return
    url = URL(filled, encoded=True)
    assert url.host == "internal.example"
    assert url.raw_path.count("/") == 3
    assert url.raw_path.startswith("/orders/")
    assert url.raw_path.endswith("/lines")
    assert url.raw_fragment == ""
    assert [pair.partition("=")[0] for pair in url.raw_query_string.split("&")] == ["lang", "fixed"]
    assert set(filled) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?&=%")


@pytest.mark.parametrize("value", ["..", ".", " .. ", "", "   "])
def test_n_20_dot_segments_and_nothing_are_refused(value: str) -> None:
    """N-20: a segment that means another folder, or none, is no value."""
    with pytest.raises(ToolFailed):
        fill_url(_TEMPLATE, {"order": value})


@pytest.mark.parametrize("url", ["http://{host}/ok", "http://127.0.0.1:{host}/ok", "http://x@{host}/ok", "{host}/ok"])
async def test_n_20_a_value_cannot_choose_the_host(server: Platform, url: str) -> None:
    """N-20: a template with a place in its host or port is refused with the settings, or reaches nothing that is not listed."""
    host = server.base.removeprefix("http://").removeprefix("127.0.0.1:" if "127" in url else "")
    with pytest.raises((ValidationError, ToolFailed)):
        await _called({"name": "t", "description": "x", "url": url, "summary_template": "x"}, host)
    assert server.requests == []


_NO_CONTEXT: Any = None


async def _called(settings: dict[str, Any], host: str) -> None:
    """The tool of these settings, called with this value."""
    await http_tool(HttpTool.model_validate(settings), Tenant(id="acme")).run(_NO_CONTEXT, {"host": host})


@pytest.mark.parametrize("word", ["-rf", "--help", "-"])
@pytest.mark.parametrize("place", ["{word}", "{word}.txt", "x={word}"])
def test_n_20_arguments_never_begin_with_a_minus(word: str, place: str) -> None:
    """N-20: whatever the preset's pattern allows, a value that would be read as an option is refused."""
    from tools.builtin.run_script import fill_argv

    arguments = {"word": ScriptArgument(pattern=r"[\s\S]*")}
    preset = ScriptPreset(id="p", description="x", argv=("/bin/echo", place), arguments=arguments)
    with pytest.raises(ToolRefused):
        fill_argv(preset, {"word": word})


def test_n_20_a_value_that_looks_like_a_place_stays_a_value() -> None:
    """N-20: what runs is what was shown: arguments are filled in once, never again inside one another."""
    from tools.builtin.run_script import fill_argv

    arguments = {name: ScriptArgument(pattern=r"[\s\S]*") for name in ("a", "b")}
    preset = ScriptPreset(id="p", description="x", argv=("/bin/echo", "{a}", "x={b}"), arguments=arguments)
    assert fill_argv(preset, {"a": "{b}", "b": "{a}"}) == ["/bin/echo", "{b}", "x={a}"]
