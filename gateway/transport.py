"""One HTTP call to a platform: raw UTF-8 bytes out, any answer read, never an exception that could show a token."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import aiohttp

from gateway.errors import Action, Context, TokenUnavailable, action_for
from gateway.tokens import Token, TokenStore

TIMEOUT = aiohttp.ClientTimeout(total=15, connect=4, sock_connect=4)
_ANSWER_LIMIT = 1024 * 1024
_ERRMSG_CHARS = 300
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)

Transport = Literal["answered", "not_sent", "unknown"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``errcode`` is set when ``transport`` is answered; ``errmsg`` is redacted and short.

    ``context`` tells ``action_for`` that the number came from fetching a token; ``rejected`` that the token was refused
    and the one refresh did not help (TOK-02).
    """

    transport: Transport
    errcode: int | None = None
    errmsg: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    context: Context | None = None
    rejected: bool = False

    @property
    def ok(self) -> bool:
        """Whether the platform said errcode 0."""
        return self.transport == "answered" and self.errcode == 0


class ApiTransport:
    """Calls one account's platform. ``session`` is shared by the process; ``base`` and ``proxy`` are the account's own."""

    def __init__(
        self,
        *,
        platform: str,
        account_id: str,
        session: aiohttp.ClientSession,
        base: str,
        proxy: str | None = None,
        secrets_of_account: tuple[str, ...] = (),
        timeout: aiohttp.ClientTimeout = TIMEOUT,
    ) -> None:
        self.platform = platform
        self.account_id = account_id
        self.session = session
        self.base = base.rstrip("/")
        self.proxy = proxy
        self._secrets = secrets_of_account
        self._timeout = timeout

    def with_timeout(self, timeout: aiohttp.ClientTimeout) -> ApiTransport:
        """The same transport with another patience."""
        return ApiTransport(
            platform=self.platform,
            account_id=self.account_id,
            session=self.session,
            base=self.base,
            proxy=self.proxy,
            secrets_of_account=self._secrets,
            timeout=timeout,
        )

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json; charset=utf-8",
        needs_errcode: bool = True,
    ) -> Answer:
        """One request, no retry, no redirect. Without ``needs_errcode`` a JSON object that has none counts as errcode 0."""
        headers = {"Content-Type": content_type} if body is not None else {}
        hidden = (*self._secrets, *(query or {}).values())
        url = path if path.startswith(("http://", "https://")) else self.base + path
        try:
            async with self.session.request(
                method,
                url,
                params=dict(query or {}),
                data=body,
                headers=headers,
                proxy=self.proxy,
                timeout=self._timeout,
                allow_redirects=False,
            ) as response:
                raw = await response.content.read(_ANSWER_LIMIT)
                while len(raw) < _ANSWER_LIMIT and (more := await response.content.read(_ANSWER_LIMIT - len(raw))):
                    raw += more
                return parse_answer(response.status, raw, hidden=hidden, needs_errcode=needs_errcode)
        except _NOT_SENT as error:
            return Answer("not_sent", errmsg=type(error).__name__)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError, ValueError) as error:
            return Answer("unknown", errmsg=type(error).__name__)

    async def with_token(
        self,
        tokens: TokenStore,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json; charset=utf-8",
        needs_errcode: bool = True,
    ) -> Answer:
        """A call with the access_token as it is now; on a stale-token errcode one refresh and one retry, never more."""

        async def once(token: Token) -> Answer:
            return await self.call(
                method,
                path,
                query={"access_token": token.value, **(query or {})},
                body=body,
                content_type=content_type,
                needs_errcode=needs_errcode,
            )

        try:
            token = await tokens.get(self.account_id)
        except TokenUnavailable as error:
            return token_failure(error)
        answer = await once(token)
        if not self.is_stale(answer):
            return answer
        try:
            token = await tokens.refresh(self.account_id, token)
        except TokenUnavailable as error:
            return token_failure(error)
        answer = await once(token)
        return replace(answer, context="token", rejected=True) if self.is_stale(answer) else answer

    def is_stale(self, answer: Answer) -> bool:
        """Whether the platform refused the token."""
        return answer.transport == "answered" and action_for(self.platform, answer.errcode) is Action.refresh_token


def parse_answer(status: int, raw: bytes, *, hidden: tuple[str, ...] = (), needs_errcode: bool = True) -> Answer:
    """Judge an answer by its bytes, whatever its content type: HTML, 5xx, empty or cut JSON leave the outcome unknown."""
    if status >= 500:
        return Answer("unknown", errmsg=f"HTTP {status}")
    try:
        data = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return Answer("unknown", errmsg=f"HTTP {status} with {len(raw)} bytes that are not JSON")
    if not isinstance(data, dict):
        return Answer("unknown", errmsg=f"HTTP {status} with JSON that is not an object")
    given = data.get("errcode")
    if given is None and not needs_errcode and status == 200:
        given = 0
    try:
        errcode = int(str(given))
    except ValueError:
        return Answer("unknown", errmsg=f"HTTP {status} without a usable errcode")
    return Answer("answered", errcode, redact(str(data.get("errmsg") or ""), hidden), data)


def redact(text: str, hidden: tuple[str, ...]) -> str:
    """``text`` without the given secrets, on one line, at most 300 characters."""
    for value in hidden:
        if len(value) >= 6:
            text = text.replace(value, "***")
    return " ".join(text.split())[:_ERRMSG_CHARS]


def token_failure(error: TokenUnavailable) -> Answer:
    """No token, so the call itself was never sent: the answer is the token call's own."""
    transport: Transport = "not_sent" if error.errcode is None else "answered"
    return Answer(transport, error.errcode, error.errmsg or error.code, context="token", rejected=error.code == "token_rejected")


def json_bytes(data: Mapping[str, Any]) -> bytes:
    """JSON as the platforms want it: raw UTF-8, no ``\\uXXXX``, keys in the given order (so a retry has the same bytes)."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def multipart(field_name: str, file_name: str, content: bytes, content_type: str) -> tuple[bytes, str]:
    """A multipart body with one file, its name as raw UTF-8 (the platforms do not read RFC 2231), and its content type."""
    boundary = "yizhan" + secrets.token_hex(16)
    safe = "".join(
        "_" if character in '"\\' or ord(character) < 32 or ord(character) == 127 else character for character in file_name
    )
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field_name}"; filename="{safe or "file"}"; '
    head += f"filelength={len(content)}\r\nContent-Type: {content_type}\r\n\r\n"
    body = head.encode("utf-8", "replace") + content + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"
