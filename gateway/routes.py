"""URL tables of the two sites, and the thin skin between aiohttp and CallbackRequest/CallbackReply."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from config.logging import get_logger, log
from gateway.channel import CallbackReply, CallbackRequest
from gateway.health import HEALTH_TEXT, readiness

if TYPE_CHECKING:
    from gateway.metrics import Metrics
    from gateway.services import Services

BODY_LIMIT = 256 * 1024
_BODY_S = 4.0
_DRAIN_BYTES = 4 * 1024 * 1024
_DRAIN_S = 1.0
_VERIFY_NAME = re.compile(r"(WW_verify|MP_verify)_[A-Za-z0-9]{1,64}\.txt")
_VERIFY_BYTES = 4096
_logger = get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BodyRefused(Exception):
    """The body is too large or too slow; ``status`` says which."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def public_app(services: Services, metrics: Metrics) -> web.Application:
    """What the platforms and browsers reach: callbacks, domain verification files, signed pages, /healthz."""
    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_route("*", "/callback/{account}", _callback(services, metrics))
    app.router.add_get("/healthz", _healthz)
    for path, handler in services.public_routes:
        app.router.add_get(path, handler)
    app.router.add_get(r"/{name:(?:WW_verify|MP_verify)_[A-Za-z0-9]+\.txt}", _verify_file(services))
    app.router.add_route("*", "/{rest:.*}", _not_here)
    return app


def admin_app(services: Services, metrics: Metrics) -> web.Application:
    """What operators and programs reach, on the admin address only (N-23): readiness, metrics, the API."""
    app = web.Application(client_max_size=4 * 1024 * 1024)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", _readyz(services))
    app.router.add_get("/metrics", _metrics(services, metrics))
    for add_routes in services.admin_routes:
        add_routes(app)
    return app


def text(status: int, body: str) -> web.Response:
    """A plain-text answer."""
    return web.Response(status=status, text=body, content_type="text/plain")


def _callback(services: Services, metrics: Metrics) -> Handler:
    handle = services.callbacks.handle

    async def callback(request: web.Request) -> web.StreamResponse:
        started, close_after = time.monotonic(), False
        try:
            if request.method not in ("GET", "POST"):
                reply = CallbackReply(405, b"yizhan callback: GET and POST only\n")
            else:
                reply = await handle(request.match_info["account"], await _read(request))
        except BodyRefused as refused:
            log(_logger, "callback.body_refused", account=request.match_info["account"], status=refused.status)
            reply = CallbackReply(refused.status, b"yizhan callback: the body is too large or too slow\n")
            close_after = True
        except Exception as error:  # noqa: BLE001 -- the boundary: drop the connection, so that the platform delivers again
            log(_logger, "callback.crashed", logging.ERROR, error=error)
            reply = CallbackReply(200, close=True)
        metrics.callbacks.labels(_outcome(reply)).inc()
        if reply.close:
            return _drop(request)
        metrics.acknowledge.observe(time.monotonic() - started)
        response = web.Response(status=reply.status, body=reply.body, headers={"Content-Type": reply.content_type})
        if close_after:
            response.force_close()
        return response

    return callback


async def _read(request: web.Request) -> CallbackRequest:
    query: dict[str, tuple[str, ...]] = {}
    for key, value in request.query.items():
        query[key] = (*query.get(key, ()), value)
    body = await _read_body(request) if request.method == "POST" else b""
    return CallbackRequest(request.method, query, body, request.headers.get("Content-Type", ""))


async def _read_body(request: web.Request) -> bytes:
    """The body, counted while it arrives. Raises BodyRefused (413, 408)."""
    if request.content_length is not None and request.content_length > BODY_LIMIT:
        await _drain(request)
        raise BodyRefused(413)
    if request.content.is_eof():  # it came with the headers, as nearly every callback does
        return await _whole(request)
    try:
        async with asyncio.timeout(_BODY_S):
            return await _whole(request)
    except TimeoutError:
        raise BodyRefused(408) from None


async def _whole(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        await _drain(request)
        raise BodyRefused(413) from None


async def _drain(request: web.Request) -> None:
    """Take a little more of a body that is refused: a client that is still sending would see a reset, not the answer."""
    left = _DRAIN_BYTES
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for chunk in request.content.iter_any():
                left -= len(chunk)
                if left <= 0:
                    return
    except (TimeoutError, OSError):
        return


def _drop(request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer (N-01): the platform takes it for a failure and delivers again."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _outcome(reply: CallbackReply) -> str:
    if reply.close:
        return "unanswered"
    if reply.status >= 400:
        return "rejected"
    return "acknowledged" if reply.body in (b"", b"success") else "answered"


def _verify_file(services: Services) -> Handler:
    folder = services.settings.verify_dir

    async def verify_file(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if folder is None or not _VERIFY_NAME.fullmatch(name):
            return text(404, "not here\n")
        try:
            content = await asyncio.to_thread((folder / name).read_bytes)
        except OSError:
            return text(404, "not here\n")
        if len(content) > _VERIFY_BYTES:
            return text(404, "not here\n")
        return web.Response(body=content, headers={"Content-Type": "text/plain"})

    return verify_file


async def _healthz(_request: web.Request) -> web.StreamResponse:
    return text(200, HEALTH_TEXT)


async def _not_here(_request: web.Request) -> web.StreamResponse:
    return text(404, "not here\n")


def _readyz(services: Services) -> Handler:
    async def readyz(_request: web.Request) -> web.StreamResponse:
        ready, parts = await readiness(services)
        return web.json_response(parts, status=200 if ready else 503)

    return readyz


def _metrics(services: Services, metrics: Metrics) -> Handler:
    async def render(_request: web.Request) -> web.StreamResponse:
        from gateway.metrics import CONTENT_TYPE

        return web.Response(body=await metrics.render(services), headers={"Content-Type": CONTENT_TYPE})

    return render
