"""The simulator's web application: routes, the loopback and token guard, the page and its live stream."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from .acts import Acts
from .answers import json_answer
from .api import Api
from .callbacks import Callbacks
from .control import Control
from .work_orders import WorkOrders
from .world import World

PAGE = Path(__file__).with_name("page.html")
COOKIE = "sim_token"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAX_BODY_BYTES = 32 * 1024 * 1024
KEEP_ALIVE_S = 15.0
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data:; connect-src 'self'"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def create_app(world: World, own_base: str) -> web.Application:
    """The application; call inside the running loop. ``own_base`` is the simulator's own address, for media links."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
    callbacks = Callbacks(world, session)
    site = _Site(world)
    orders = WorkOrders(world)
    app = web.Application(middlewares=[_guard(world)], client_max_size=MAX_BODY_BYTES)
    app.add_routes(Control(world, callbacks, Acts(world, callbacks, own_base)).routes())
    app.add_routes(
        [
            web.get("/", site.page),
            web.get("/favicon.ico", site.no_icon),
            web.get("/_sim/events", site.events),
            web.get("/_media/{id}", site.media),
            web.get("/_svc/work_orders", orders.listing),
            web.post("/_svc/work_orders", orders.create),
            web.get("/_svc/work_orders/{id}", orders.one),
            web.patch("/_svc/work_orders/{id}", orders.one),
        ]
    )
    api = Api(world, callbacks)
    for prefix in ("", "/wecom", "/mp"):
        app.router.add_route("*", prefix + "/cgi-bin/{tail:.+}", api.handle)

    async def close(_: web.Application) -> None:
        await callbacks.close()
        await session.close()

    app.on_shutdown.append(site.stop)
    app.on_cleanup.append(close)
    return app


class _Site:
    """The chat page, its live stream, and media files."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = asyncio.Event()

    async def page(self, request: web.Request) -> web.StreamResponse:
        """GET /: the chat page; opening it with the token sets the cookie."""
        answer = web.Response(body=PAGE.read_bytes(), content_type="text/html", charset="utf-8")
        answer.headers.update({"Content-Security-Policy": _POLICY, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
        if self._world.start_token:
            answer.set_cookie(COOKIE, self._world.start_token, httponly=True, samesite="Strict")
        return answer

    async def no_icon(self, request: web.Request) -> web.StreamResponse:
        """GET /favicon.ico."""
        return web.Response(status=204)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """GET /_sim/events: server-sent events ``feed``, ``exchange``, ``card``, ``call``, ``faults``, ..."""
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        queue = self._world.log.listen()
        try:
            await answer.prepare(request)
            await answer.write(b": hello\n\n")
            while not self._stopping.is_set():
                try:
                    item = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    await answer.write(b": still here\n\n")
                    continue
                data = json.dumps(item["data"], ensure_ascii=False)
                await answer.write(f"event: {item['kind']}\ndata: {data}\n\n".encode())
        except ConnectionError:
            pass  # the page was closed
        finally:
            self._world.log.forget(queue)
        return answer

    async def media(self, request: web.Request) -> web.StreamResponse:
        """GET /_media/{id}: a picture or video as the platforms' file servers hand it out."""
        item = self._world.media.get(request.match_info["id"])
        if item is None:
            return json_answer({"error": "no such media"}, status=404)
        headers = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}
        return web.Response(body=item["data"], content_type=item["content_type"].split(";")[0], headers=headers)

    async def stop(self, _: web.Application) -> None:
        """End the live streams so that the server can close."""
        self._stopping.set()
        self._world.log.publish("bye", {})


def _guard(world: World) -> Middleware:
    """N-23: a loopback Host header everywhere, the start-up token on the page and the control API."""

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if not _loopback(request.host) or (origin is not None and not _loopback(origin.partition("://")[2])):
            return json_answer({"error": "the simulator answers on loopback only"}, status=403)
        if request.path == "/" or request.path.startswith("/_sim/"):
            refusal = _token_refusal(world, request)
            if refusal is not None:
                return refusal
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return json_answer({"error": error.text or error.reason}, status=error.status)

    return guard


def _loopback(authority: str) -> bool:
    host = authority if authority.endswith("]") else authority.rsplit(":", 1)[0]
    return host.lower() in LOOPBACK


def _token_refusal(world: World, request: web.Request) -> web.Response | None:
    if not world.start_token:
        return None
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    given = (request.headers.get("X-Sim-Token"), request.query.get("token"), request.cookies.get(COOKIE), bearer)
    if any(value and hmac.compare_digest(value.encode(), world.start_token.encode()) for value in given):
        return None
    message = "start-up token missing: open the address printed at start, or send it as X-Sim-Token or ?token="
    return json_answer({"error": message}, status=401)


@contextlib.asynccontextmanager
async def serving(world: World, port: int = 0) -> AsyncIterator[str]:
    """The simulator on a loopback port for the time of an ``async with`` block; yields its base URL."""
    listener = socket.create_server(("127.0.0.1", port))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    runner = web.AppRunner(await create_app(world, base), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield base
    finally:
        await runner.cleanup()
