"""The WeCom server API of one self-built app (developer.work.weixin.qq.com)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from config.schema import WecomAccount
from gateway.channel import SendOutcome
from gateway.errors import PlatformError
from gateway.tokens import TokenStore
from gateway.transport import Answer, ApiTransport, json_bytes, multipart

API_BASE = "https://qyapi.weixin.qq.com"
_TOKEN_TIMEOUT = aiohttp.ClientTimeout(total=8, connect=4, sock_connect=4)


class WecomClient:
    """Every call is sent once; a stale token is refreshed at most once (gateway.transport). Answers, not exceptions."""

    def __init__(self, account: WecomAccount, session: aiohttp.ClientSession, tokens: TokenStore) -> None:
        self.account = account
        self._tokens = tokens
        secrets_of_account = (account.secret.get_secret_value(),)
        base = account.api_base or API_BASE
        self.transport = ApiTransport(
            platform="wecom",
            account_id=account.id,
            session=session,
            base=base,
            proxy=account.proxy_url,
            secrets_of_account=secrets_of_account,
        )
        self._token_transport = self.transport.with_timeout(_TOKEN_TIMEOUT)

    async def fetch_token(self, force: bool) -> tuple[str, int]:
        """gettoken (path/91039): token and remaining seconds. The platform has no forced refresh. Raises PlatformError."""
        del force
        query = {"corpid": self.account.corp_id, "corpsecret": self.account.secret.get_secret_value()}
        answer = await self._token_transport.call("GET", "/cgi-bin/gettoken", query=query)
        if not answer.ok:
            raise PlatformError(
                "gettoken failed",
                platform="wecom",
                errcode=answer.errcode,
                errmsg=answer.errmsg,
                transport=answer.transport,
                context="token",
            )
        return str(answer.data.get("access_token") or ""), int(answer.data.get("expires_in") or 0)

    async def send_message(self, body: bytes) -> SendOutcome:
        """message/send (path/90236) with frozen bytes."""
        return outcome(await self._post("/cgi-bin/message/send", body))

    async def update_card(self, body: bytes) -> SendOutcome:
        """message/update_template_card (path/94888); ``invaliduser`` is a list here."""
        return outcome(await self._post("/cgi-bin/message/update_template_card", body))

    async def webhook_send(self, url: str, body: bytes) -> SendOutcome:
        """webhook/send of a group robot (path/91770); ``url`` holds its key and is never shown."""
        return outcome(await self._webhook(url, body=body))

    async def webhook_upload(self, url: str, file_name: str, content: bytes, kind: str = "file") -> Answer:
        """webhook/upload_media: a media_id for this robot only."""
        body, content_type = multipart("media", file_name, content, "application/octet-stream")
        return await self._webhook(url.replace("/webhook/send", "/webhook/upload_media"), body, content_type, {"type": kind})

    async def upload_media(self, kind: str, file_name: str, content: bytes, content_type: str) -> Answer:
        """media/upload (path/90253): media_id, good for 3 days."""
        body, form_type = multipart("media", file_name, content, content_type)
        return await self.transport.with_token(
            self._tokens, "POST", "/cgi-bin/media/upload", query={"type": kind}, body=body, content_type=form_type
        )

    async def get_user(self, user_id: str) -> Answer:
        """user/get (path/90196)."""
        return await self._get("/cgi-bin/user/get", {"userid": user_id})

    async def list_users(self, department_id: str) -> Answer:
        """user/simplelist (path/90200): members of a department and below, inside the app's visible range."""
        return await self._get("/cgi-bin/user/simplelist", {"department_id": department_id, "fetch_child": "1"})

    async def list_departments(self) -> Answer:
        """department/list (path/90208): departments inside the app's visible range; an app may be given ids without names."""
        return await self._get("/cgi-bin/department/list")

    async def approval_template(self, template_id: str) -> Answer:
        """oa/gettemplatedetail (path/91982): the template's controls."""
        return await self._post("/cgi-bin/oa/gettemplatedetail", json_bytes({"template_id": template_id}))

    async def get_agent(self) -> Answer:
        """agent/get (path/90227): proves that the app can be read from this address (a token alone does not)."""
        return await self._get("/cgi-bin/agent/get", {"agentid": str(self.account.agent_id)})

    async def callback_ips(self) -> Answer:
        """getcallbackip (path/90930): where callbacks come from."""
        return await self._get("/cgi-bin/getcallbackip")

    async def api_domain_ips(self) -> Answer:
        """get_api_domain_ip (path/92520): where the API is."""
        return await self._get("/cgi-bin/get_api_domain_ip")

    async def create_menu(self, menu: Mapping[str, Any]) -> Answer:
        """menu/create (path/90231)."""
        return await self._post("/cgi-bin/menu/create", json_bytes(menu), {"agentid": str(self.account.agent_id)})

    async def get_menu(self) -> Answer:
        """menu/get (path/90232)."""
        return await self._get("/cgi-bin/menu/get", {"agentid": str(self.account.agent_id)})

    async def delete_menu(self) -> Answer:
        """menu/delete (path/90233)."""
        return await self._get("/cgi-bin/menu/delete", {"agentid": str(self.account.agent_id)})

    async def apply_approval(self, application: Mapping[str, Any]) -> Answer:
        """oa/applyevent (path/91853): submits an approval; ``sp_no`` in the answer."""
        return await self._post("/cgi-bin/oa/applyevent", json_bytes(application))

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        return await self.transport.with_token(self._tokens, "GET", path, query=query)

    async def _post(self, path: str, body: bytes, query: Mapping[str, str] | None = None) -> Answer:
        return await self.transport.with_token(self._tokens, "POST", path, query=query, body=body)

    async def _webhook(
        self,
        url: str,
        body: bytes,
        content_type: str = "application/json; charset=utf-8",
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        address, _, given = url.partition("?")
        if self.account.api_base and address.startswith(API_BASE):
            address = self.account.api_base.rstrip("/") + address.removeprefix(API_BASE)
        pairs = dict(pair.split("=", 1) for pair in given.split("&") if "=" in pair)
        return await self.transport.call("POST", address, query={**pairs, **(query or {})}, body=body, content_type=content_type)


def outcome(answer: Answer) -> SendOutcome:
    """An answer as delivery reads it; invalid users come as ``a|b`` or as a list."""
    invalid = answer.data.get("invaliduser") or ()
    users = invalid.split("|") if isinstance(invalid, str) else [str(user) for user in invalid]
    platform_id = answer.data.get("msgid")
    return SendOutcome(
        transport=answer.transport,
        errcode=answer.errcode,
        errmsg=answer.errmsg,
        platform_id=str(platform_id) if platform_id else None,
        response_code=answer.data.get("response_code") or None,
        invalid_users=tuple(user for user in users if user),
        data={"context": answer.context, "token_rejected": answer.rejected} if answer.context else {},
    )
