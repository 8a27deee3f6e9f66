"""The server API of one Official Account (developers.weixin.qq.com)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from config.schema import MpAccount
from gateway.channel import SendOutcome
from gateway.errors import PlatformError
from gateway.tokens import TokenStore
from gateway.transport import Answer, ApiTransport, json_bytes, multipart

API_BASE = "https://api.weixin.qq.com"
_TOKEN_TIMEOUT = aiohttp.ClientTimeout(total=8, connect=4, sock_connect=4)


class MpClient:
    """Every call is sent once; a stale token is refreshed at most once (gateway.transport). Answers, not exceptions."""

    def __init__(self, account: MpAccount, session: aiohttp.ClientSession, tokens: TokenStore) -> None:
        self.account = account
        self._tokens = tokens
        secrets_of_account = (account.app_secret.get_secret_value(),)
        base = account.api_base or API_BASE
        self.transport = ApiTransport(
            platform="mp",
            account_id=account.id,
            session=session,
            base=base,
            proxy=account.proxy_url,
            secrets_of_account=secrets_of_account,
        )
        self._token_transport = self.transport.with_timeout(_TOKEN_TIMEOUT)

    async def fetch_token(self, force: bool) -> tuple[str, int]:
        """stable_token (Get_access_token/getStableAccessToken): token and remaining seconds. Raises PlatformError."""
        request = {
            "grant_type": "client_credential",
            "appid": self.account.app_id,
            "secret": self.account.app_secret.get_secret_value(),
            "force_refresh": force,
        }
        answer = await self._token_transport.call("POST", "/cgi-bin/stable_token", body=json_bytes(request), needs_errcode=False)
        if not answer.ok:
            raise PlatformError(
                "stable_token failed",
                platform="mp",
                errcode=answer.errcode,
                errmsg=answer.errmsg,
                transport=answer.transport,
                context="token",
            )
        return str(answer.data.get("access_token") or ""), int(answer.data.get("expires_in") or 0)

    async def send_custom(self, body: bytes) -> SendOutcome:
        """message/custom/send: a customer-service message."""
        return outcome(await self._post("/cgi-bin/message/custom/send", body))

    async def send_template(self, body: bytes) -> SendOutcome:
        """message/template/send: a template message, de-duplicated by client_msg_id for 10 minutes."""
        return outcome(await self._post("/cgi-bin/message/template/send", body))

    async def typing(self, open_id: str, command: str = "Typing") -> Answer:
        """message/custom/typing: the "is typing" hint (15 s)."""
        return await self._post("/cgi-bin/message/custom/typing", json_bytes({"touser": open_id, "command": command}))

    async def upload_media(self, kind: str, file_name: str, content: bytes, content_type: str) -> Answer:
        """media/upload: media_id, good for 3 days. A success carries no errcode."""
        body, form_type = multipart("media", file_name, content, content_type)
        return await self.transport.with_token(
            self._tokens,
            "POST",
            "/cgi-bin/media/upload",
            query={"type": kind},
            body=body,
            content_type=form_type,
            needs_errcode=False,
        )

    async def create_menu(self, menu: Mapping[str, Any]) -> Answer:
        """menu/create."""
        return await self._post("/cgi-bin/menu/create", json_bytes(menu))

    async def get_menu(self) -> Answer:
        """menu/get: only menus made through the API."""
        return await self._get("/cgi-bin/menu/get")

    async def delete_menu(self) -> Answer:
        """menu/delete."""
        return await self._get("/cgi-bin/menu/delete")

    async def get_selfmenu(self) -> Answer:
        """get_current_selfmenu_info: the menu in force, also one made on the website."""
        return await self._get("/cgi-bin/get_current_selfmenu_info")

    async def get_autoreply(self) -> Answer:
        """get_current_autoreply_info: the automatic replies in force."""
        return await self._get("/cgi-bin/get_current_autoreply_info")

    async def callback_ips(self) -> Answer:
        """getcallbackip: where callbacks come from."""
        return await self._get("/cgi-bin/getcallbackip")

    async def api_domain_ips(self) -> Answer:
        """get_api_domain_ip: where the API is."""
        return await self._get("/cgi-bin/get_api_domain_ip")

    async def _get(self, path: str) -> Answer:
        return await self.transport.with_token(self._tokens, "GET", path, needs_errcode=False)

    async def _post(self, path: str, body: bytes) -> Answer:
        return await self.transport.with_token(self._tokens, "POST", path, body=body)


def outcome(answer: Answer) -> SendOutcome:
    """An answer as delivery reads it; the msgid of a template message is a number."""
    platform_id = answer.data.get("msgid")
    return SendOutcome(
        transport=answer.transport,
        errcode=answer.errcode,
        errmsg=answer.errmsg,
        platform_id=str(platform_id) if platform_id else None,
        data={"context": answer.context, "token_rejected": answer.rejected} if answer.context else {},
    )
