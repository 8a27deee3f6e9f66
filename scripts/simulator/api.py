"""The platforms' API: one dispatcher that knows tokens, faults and the record of every call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from aiohttp import web

from . import directory_api, media_api, menu_api, mp_send, token_api, webhook_api, wecom_send
from .answers import Refused, error_body, json_answer
from .callbacks import Callbacks
from .calls import CALLER_IP, Call, Handler
from .faults import Fault
from .wirelog import CALL_TEXT_CAP, clip
from .world import World

_FREE: dict[str, Handler] = {
    "/cgi-bin/gettoken": token_api.gettoken,
    "/cgi-bin/token": token_api.token,
    "/cgi-bin/stable_token": token_api.stable_token,
    "/cgi-bin/webhook/send": webhook_api.send,
    "/cgi-bin/webhook/upload_media": webhook_api.upload_media,
}
_BOTH: dict[str, Handler] = {
    "/cgi-bin/getcallbackip": directory_api.callback_ips,
    "/cgi-bin/get_api_domain_ip": directory_api.callback_ips,
    "/cgi-bin/media/upload": media_api.upload,
    "/cgi-bin/media/get": media_api.get,
    "/cgi-bin/menu/create": menu_api.create,
    "/cgi-bin/menu/get": menu_api.get,
    "/cgi-bin/menu/delete": menu_api.delete,
}
_WECOM: dict[str, Handler] = {
    "/cgi-bin/message/send": wecom_send.message_send,
    "/cgi-bin/message/update_template_card": wecom_send.update_template_card,
    "/cgi-bin/message/recall": wecom_send.recall,
    "/cgi-bin/user/get": directory_api.user_get,
    "/cgi-bin/user/simplelist": directory_api.user_list,
    "/cgi-bin/user/list": directory_api.user_list,
    "/cgi-bin/department/list": directory_api.department_list,
    "/cgi-bin/department/simplelist": directory_api.department_list,
    "/cgi-bin/agent/get": directory_api.agent_get,
    "/cgi-bin/oa/applyevent": directory_api.apply_event,
    "/cgi-bin/oa/getapprovaldetail": directory_api.approval_detail,
    "/cgi-bin/oa/gettemplatedetail": directory_api.template_detail,
}
_MP: dict[str, Handler] = {
    "/cgi-bin/message/custom/send": mp_send.custom_send,
    "/cgi-bin/message/custom/typing": mp_send.custom_typing,
    "/cgi-bin/message/template/send": mp_send.template_send,
    "/cgi-bin/clear_quota": token_api.clear_quota,
    "/cgi-bin/get_current_selfmenu_info": menu_api.self_menu,
    "/cgi-bin/get_current_autoreply_info": menu_api.auto_reply,
}
_TOKEN_PATHS = frozenset({"/cgi-bin/gettoken", "/cgi-bin/token", "/cgi-bin/stable_token"})
_HTML = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>"
HANG_S = 60.0


class Api:
    """Answers every ``/cgi-bin/`` path of both platforms; ``/wecom`` and ``/mp`` prefixes are accepted."""

    def __init__(self, world: World, callbacks: Callbacks) -> None:
        self._world = world
        self._callbacks = callbacks

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call, from bytes to record."""
        path = "/cgi-bin/" + request.match_info["tail"].strip("/")
        call = Call(self._world, self._callbacks, request, path, request.query)
        if not request.content_type.startswith("multipart/"):
            call.body = await request.read()
        self._name_account(call)
        record = self._record(call)
        early = await self._early_fault(call)
        if early is not None:
            return self._close(call, record, early)
        answer, took_effect = await self._run(call)
        late = await self._late_fault(call) if took_effect else None
        return self._close(call, record, late or answer)

    def _name_account(self, call: Call) -> None:
        """The account a call is about, as far as its token or credentials tell, for faults and the record."""
        issued, _ = self._world.tokens.check(call.query.get("access_token"))
        if issued is not None:
            call.account = self._world.accounts.get(issued.account)
            return
        app_id = call.query.get("corpid") or call.query.get("appid") or _appid_in(call.body)
        secret = call.query.get("corpsecret")
        matching = [a for a in self._world.accounts.values() if app_id and a.app_id == app_id]
        exact = [a for a in matching if secret is None or a.secret == secret]
        call.account = next(iter(exact or matching), None)

    async def _run(self, call: Call) -> tuple[web.StreamResponse, bool]:
        """The answer, and whether the call took effect rather than being refused."""
        try:
            handler = self._authorize(call)
            call.drop = self._fault(call, "silent_drop") if call.path.endswith("/send") else None
            answer = await handler(call)
        except Refused as refusal:
            return self._refuse(call, refusal.errcode, refusal.detail), False
        return answer if isinstance(answer, web.StreamResponse) else json_answer(answer), True

    def _authorize(self, call: Call) -> Handler:
        """The handler this call may use. Raises Refused, or 404 for a path neither platform has."""
        path = call.path
        if path in _FREE:
            self._refuse_by_fault(call)
            return _FREE[path]
        if path not in _BOTH and path not in _WECOM and path not in _MP:
            raise web.HTTPNotFound(text=f"neither platform has {path} here")
        issued, refusal = self._world.tokens.check(call.query.get("access_token"))
        if issued is None and refusal == 40014 and not self._speaks_wecom(call):
            refusal = 40001
        if refusal:
            raise Refused(refusal)
        if self._fault(call, "token_refused"):
            raise Refused(40014 if call.owner.wecom else 40001)
        self._refuse_by_fault(call)
        table = _WECOM if call.owner.wecom else _MP
        handler = _BOTH.get(path) or table.get(path)
        if handler is None:
            raise Refused(48002 if call.owner.wecom else 48001)
        return handler

    def _refuse_by_fault(self, call: Call) -> None:
        wecom = self._speaks_wecom(call)
        if not (wecom and call.path in _TOKEN_PATHS) and self._fault(call, "ip_blocked", tokens_too=True):
            raise Refused(60020 if wecom else 40164)
        if self._fault(call, "busy"):
            raise Refused(-1)
        if self._fault(call, "quota"):
            raise Refused(45009)
        chosen = self._fault(call, "errcode")
        if chosen is not None:
            raise Refused(chosen.value)

    def _fault(self, call: Call, name: str, *, tokens_too: bool = False) -> Fault | None:
        """A matching fault. One without a path leaves the token endpoints alone, so that a count hits the send."""
        named = call.path in _TOKEN_PATHS and not tokens_too
        account = call.account.id if call.account else None
        return self._world.faults.take(name, account, call.path, path_named=named)

    def _speaks_wecom(self, call: Call) -> bool:
        if call.account is not None:
            return call.account.wecom
        token = call.query.get("access_token", "")
        return call.path in _WECOM or call.path.endswith(("gettoken", "webhook/send")) or token.startswith("sim-wecom")

    def _refuse(self, call: Call, errcode: int, detail: str = "") -> web.Response:
        wecom = self._speaks_wecom(call)
        body = error_body(wecom, errcode, CALLER_IP, self._world.clock.now_s(), detail)
        return json_answer(body, plain=not wecom)

    async def _early_fault(self, call: Call) -> web.StreamResponse | None:
        """Faults that keep the call from taking effect."""
        if self._fault(call, "connection_refused", tokens_too=True):
            return _hang_up(call)
        slow = self._fault(call, "slow_ms", tokens_too=True)
        if slow is not None:
            await asyncio.sleep(slow.value / 1000)
        if self._fault(call, "http_500"):
            return web.Response(status=500, text="Internal Server Error")
        if self._fault(call, "html_200"):
            return web.Response(text="<!DOCTYPE html><html><body>系统维护中</body></html>", content_type="text/html")
        if self._fault(call, "empty_200"):
            return web.Response(body=b"", content_type="application/json")
        if self._fault(call, "truncated_json"):
            return web.Response(body=b'{"errcode":0,"errm', content_type="application/json")
        return None

    async def _late_fault(self, call: Call) -> web.StreamResponse | None:
        """Faults after the call took effect (send.unknown_outcome)."""
        if self._fault(call, "accept_then_502"):
            return web.Response(status=502, text=_HTML, content_type="text/html")
        if self._fault(call, "accept_then_close"):
            return _hang_up(call)
        hang = self._fault(call, "accept_then_timeout")
        if hang is not None:
            await _until_gone(call, hang.value / 1000 or HANG_S)
            return _hang_up(call)
        return None

    def _record(self, call: Call) -> dict[str, Any]:
        return self._world.log.add_call(
            {
                "at": self._world.clock.now_ms(),
                "account": call.account.id if call.account else None,
                "method": call.request.method,
                "path": call.path,
                "query": dict(call.query),
                "body": _shown(call.body),
                "raw": clip(call.body.decode("utf-8", "replace"), CALL_TEXT_CAP),
                "escaped": b"\\u" in call.body,
            }
        )

    def _close(self, call: Call, record: dict[str, Any], answer: web.StreamResponse) -> web.StreamResponse:
        record["status"] = answer.status
        body = answer.body if isinstance(answer, web.Response) and isinstance(answer.body, bytes) else b""
        shown = _shown(body) if answer.content_type != "application/octet-stream" else None
        record["answer"] = shown
        record["errcode"] = shown.get("errcode", 0) if isinstance(shown, dict) else None
        record.update(call.notes)
        if call.account is not None:
            record["account"] = call.account.id
        self._world.log.publish("call", {key: record.get(key) for key in ("n", "at", "account", "path", "status", "errcode")})
        return answer


async def _until_gone(call: Call, longest_s: float) -> None:
    """Return when the caller has hung up, or after ``longest_s``."""
    transport = call.request.transport
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            while transport is not None and not transport.is_closing():  # noqa: ASYNC110 - aiohttp tells no event
                await asyncio.sleep(0.05)


def _hang_up(call: Call) -> web.Response:
    if call.request.transport is not None:
        call.request.transport.abort()
    return web.Response(status=499)


def _shown(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _appid_in(body: bytes) -> str | None:
    parsed = _shown(body)
    value = parsed.get("appid") if isinstance(parsed, dict) else None
    return value if isinstance(value, str) else None
