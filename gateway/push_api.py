"""The HTTP API for programs that notify people: POST /api/v1/push, its state, and taking it back."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from redis.asyncio import Redis

from config.clock import Clock
from config.database import Database
from config.errors import YizhanError
from config.logging import get_logger, log
from config.ports import Bell
from gateway import keys, texts
from gateway.channel import Channel
from gateway.day_folders import OUTGOING
from gateway.keys import ApiKey, Scope
from gateway.outbox import SqlOutbox
from gateway.push_request import PushRefused, PushRequest, parse_request
from gateway.push_states import PushView
from gateway.push_store import PushStore
from gateway.throttle import Throttle

_logger = get_logger(__name__)
_ONE_PUSH = "/api/v1/push/{id:[A-Za-z0-9_-]+}"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class PushApi:
    """The handlers; ``add_routes`` mounts them on the admin application."""

    database: Database
    store: PushStore
    throttle: Throttle
    bell: Bell
    clock: Clock

    def add_routes(self, app: web.Application) -> None:
        """Mount the API."""
        app.router.add_post("/api/v1/push", self._guard(self._post))
        app.router.add_get(_ONE_PUSH, self._guard(self._get))
        app.router.add_delete(_ONE_PUSH, self._guard(self._cancel))
        app.router.add_post(f"{_ONE_PUSH}/cancel", self._guard(self._cancel))

    # handlers -------------------------------------------------------------------------------------------------------
    async def _post(self, request: web.Request, key: ApiKey) -> web.StreamResponse:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise PushRefused("too_large", texts.PUSH_TOO_LARGE, status=413, fix=texts.PUSH_TOO_LARGE_FIX) from None
        push = parse_request(body)
        if not key.allows(push.account):
            raise PushRefused(
                "unknown_account", texts.PUSH_NO_ACCOUNT, status=404, field="account", fix=texts.PUSH_NO_ACCOUNT_FIX
            )
        if push.to.everyone:
            _need(key, "push_all")
        if not await self.store.known(key.tenant_id, push):
            await self._within_rate(key, push)
        stored = await self.store.store(key.tenant_id, key.id, push)
        await self.bell.ring("outbox", stored.id)
        log(_logger, "push.accepted", push=stored.id, account=push.account, targets=len(stored.targets), caller=key.id)
        targets = [{**shown, "id": group} for shown, group in stored.targets]
        return _answer({"id": stored.id, "repeated": stored.repeated, "targets": targets}, status=202)

    async def _get(self, request: web.Request, key: ApiKey) -> web.StreamResponse:
        found = await self.store.view(key.tenant_id, key.accounts, request.match_info["id"])
        if found is None:
            raise PushRefused("not_found", texts.PUSH_NOT_FOUND, status=404)
        return _answer(view_json(found, self.clock))

    async def _cancel(self, request: web.Request, key: ApiKey) -> web.StreamResponse:
        push_id = request.match_info["id"]
        cancelled = await self.store.cancel(key.tenant_id, key.accounts, push_id)
        found = await self.store.view(key.tenant_id, key.accounts, push_id)
        if cancelled is None or found is None:
            raise PushRefused("not_found", texts.PUSH_NOT_FOUND, status=404)
        log(_logger, "push.cancelled", push=push_id, rows=cancelled, caller=key.id)
        return _answer({"cancelled": cancelled, **view_json(found, self.clock)})

    # who and how much -----------------------------------------------------------------------------------------------
    def _guard(self, handler: Callable[[web.Request, ApiKey], Awaitable[web.StreamResponse]]) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                key = await self._key(request)
                _need(key, "push")
                return await handler(request, key)
            except PushRefused as refused:
                headers = None if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
                return _answer(refused.as_json(), status=refused.status, headers=headers)
            except YizhanError as error:
                log(_logger, "push.failed", logging.WARNING, error=error)
                told = {"error": {"code": error.code, "message": error.user_text}}
                return _answer(told, status=503 if error.retryable else 500)

        return guarded

    async def _key(self, request: web.Request) -> ApiKey:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        now = self.clock.now_ms()
        key = None
        if scheme.lower() == "bearer":
            key = await self.database.read(lambda c: keys.authenticate(c, text.strip(), now))
        if key is None:
            raise PushRefused("unauthorized", texts.PUSH_NO_KEY, status=401, field="Authorization", fix=texts.PUSH_NO_KEY_FIX)
        if key.last_used_ms is None or now - key.last_used_ms > keys.USED_EVERY_MS:
            used = key
            await self.database.write(lambda c: keys.note_used(c, used, now))
        return key

    async def _within_rate(self, key: ApiKey, push: PushRequest) -> None:
        recipients = len(push.to.users or push.to.departments or push.to.tags or (1,))
        wait_ms = await self.throttle.take_many(f"key:{key.id}", recipients, key.recipients_per_minute)
        if wait_ms > 0:
            seconds = -(-wait_ms // 1000)
            told, fix = (
                texts.PUSH_TOO_FAST.format(limit=key.recipients_per_minute),
                texts.PUSH_TOO_FAST_FIX.format(seconds=seconds),
            )
            raise PushRefused("too_fast", told, status=429, fix=fix, retry_after_s=seconds)


def _answer(data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """JSON that a person at a terminal can read too."""
    return web.json_response(data, status=status, headers=headers, dumps=partial(json.dumps, ensure_ascii=False))


def open_push_api(
    database: Database,
    outbox: SqlOutbox,
    channels: Mapping[str, Channel],
    bell: Bell,
    redis: Redis | None,
    clock: Clock,
    data_dir: Path,
) -> PushApi:
    """The API of one process; given files are kept below ``data_dir``, where channels may send from."""
    store = PushStore(database, outbox, channels, clock, data_dir / OUTGOING)
    return PushApi(database, store, Throttle(redis, clock), bell, clock)


def _need(key: ApiKey, scope: Scope) -> None:
    if scope not in key.scopes:
        raise PushRefused(
            "forbidden", texts.PUSH_NO_SCOPE.format(scope=scope), status=403, fix=texts.PUSH_NO_SCOPE_FIX.format(scope=scope)
        )


def view_json(found: PushView, clock: Clock) -> Mapping[str, object]:
    """A push and its targets for a program; moments are ISO 8601 with the zone."""
    return {
        "id": found.id,
        "account": found.account_id,
        "created_at": clock.local(found.created_at_ms).isoformat(timespec="milliseconds"),
        "counts": found.counts,
        "targets": [
            {
                **target.shown,
                "id": target.id,
                "state": target.state,
                "reason": target.reason,
                "errcode": target.errcode,
                "attempts": target.attempts,
                "sent_at": None
                if target.sent_at_ms is None
                else clock.local(target.sent_at_ms).isoformat(timespec="milliseconds"),
            }
            for target in found.targets
        ],
    }
