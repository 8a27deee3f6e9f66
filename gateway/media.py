"""Downloads what a person sent, when it is needed: by media id or URL, to a file of its own, within limits (N-20, N-21)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import aiohttp

from agent.protocol import Attachment, InboundMessage
from config.clock import Clock
from config.errors import YizhanError
from config.schema import MediaSettings
from gateway.day_folders import MEDIA, day_folder
from gateway.errors import PlatformError, TokenUnavailable
from gateway.texts import MEDIA_UNREADABLE
from gateway.tokens import Token, TokenStore
from gateway.transport import Answer, ApiTransport, parse_answer, token_failure
from tools.egress import Egress, EgressFailed, capped

PLATFORM_HOSTS = (".qq.com", ".qpic.cn", ".qlogo.cn", ".weixin.qq.com")
"""Where the platforms keep media (PicUrl, video_url); a video_url elsewhere is not followed (SSRF)."""
_JSON_BYTES = 1024 * 1024
Content = tuple[str, bytes]
_SUFFIXES = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/gif": ".gif",
    "audio/amr": ".amr",
    "audio/mp3": ".mp3",
    "audio/mpeg": ".mp3",
    "video/mp4": ".mp4",
    "application/pdf": ".pdf",
}


class MediaRefused(YizhanError):
    """This file is not downloaded. Codes: media_too_large, media_quota, media_gone, media_refused."""

    code = "media_refused"
    user_text = MEDIA_UNREADABLE


@dataclass(frozen=True, slots=True)
class StoredMedia:
    """A downloaded file. ``file_name`` is the sender's, for showing only; the path never contains it."""

    path: Path
    size_bytes: int
    content_type: str
    file_name: str | None


class MediaSource(Protocol):
    """What downloads need of an API client."""

    transport: ApiTransport


class MediaStore:
    """Files below ``data_dir/media/<day>/<person>/``; the folder of today is also the person's used quota."""

    def __init__(
        self,
        data_dir: Path,
        limits: MediaSettings,
        clock: Clock,
        tokens: TokenStore,
        egress: Egress,
    ) -> None:
        self._root = data_dir / MEDIA
        self._limits = limits
        self._clock = clock
        self._tokens = tokens
        self._egress = egress

    async def fetch(
        self, client: MediaSource, attachment: Attachment, *, tenant_id: str, account_id: str, user_id: str, said: str = ""
    ) -> StoredMedia:
        """Download one attachment. Raises MediaRefused, EgressRefused, EgressFailed or PlatformError (retryable or not)."""
        folder = self._folder(tenant_id, account_id, user_id)
        used = await asyncio.to_thread(_used_bytes, folder)
        left = self._limits.daily_bytes_per_person - used
        if left <= 0:
            raise MediaRefused("the daily quota of this person is used up", code="media_quota")
        limit = min(self._limits.max_bytes, left)
        try:
            if attachment.media_id:
                return await self._by_media_id(client, attachment, folder, limit)
            if attachment.url:
                return await self._by_url(attachment.url, said, attachment.file_name, folder, limit)
        except EgressFailed as error:
            if error.code == "too_large":
                code = "media_too_large" if limit == self._limits.max_bytes else "media_quota"
                raise MediaRefused(str(error), code=code) from None
            raise
        raise MediaRefused("the attachment names neither a media id nor a URL")

    async def _by_media_id(self, client: MediaSource, attachment: Attachment, folder: Path, limit: int) -> StoredMedia:
        account_id = client.transport.account_id
        try:
            token = await self._tokens.get(account_id)
            found = await self._get_media(client.transport, token, attachment, folder, limit)
            if isinstance(found, Answer) and client.transport.is_stale(found):
                token = await self._tokens.refresh(account_id, token)
                found = await self._get_media(client.transport, token, attachment, folder, limit)
        except TokenUnavailable as error:
            found = token_failure(error)
        if isinstance(found, StoredMedia):
            return found
        video_url = found.data.get("video_url")
        if found.ok and isinstance(video_url, str):
            return await self._by_url(video_url, "", attachment.file_name, folder, limit)
        if attachment.url and self._egress.allows(attachment.url):  # a picture is also at its PicUrl
            return await self._by_url(attachment.url, "", attachment.file_name, folder, limit)
        if found.errcode == 830002:
            raise MediaRefused("the platform says the file is larger than 20 MiB", code="media_too_large")
        if found.errcode == 40007:
            raise MediaRefused("the media id has expired", code="media_gone")
        raise PlatformError(
            "media/get failed",
            platform=client.transport.platform,
            errcode=found.errcode or None,
            errmsg=found.errmsg,
            transport=found.transport,
            context=found.context,
        )

    async def _get_media(
        self, transport: ApiTransport, token: Token, attachment: Attachment, folder: Path, limit: int
    ) -> StoredMedia | Answer:
        """One media/get: the stored file, or the JSON answer the platform gave instead."""
        query = {"access_token": token.value, "media_id": attachment.media_id or ""}
        try:
            async with transport.session.get(
                f"{transport.base}/cgi-bin/media/get",
                params=query,
                proxy=transport.proxy,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=60, connect=4, sock_connect=4, sock_read=15),
            ) as response:
                if response.status != 200:
                    return Answer("unknown", errmsg=f"HTTP {response.status}")
                if response.content_type in ("application/json", "text/plain", "text/json"):
                    body = await response.content.read(_JSON_BYTES)
                    while more := await response.content.read(_JSON_BYTES):
                        body += more
                        if len(body) > _JSON_BYTES:
                            break
                    if _is_object(body) or response.content_type != "text/plain":
                        return parse_answer(200, body, hidden=(token.value,), needs_errcode=False)
                    return await self._store(_once(body, limit), "text/plain", attachment.file_name, folder)
                declared = response.content_length
                if declared is not None and declared > limit:
                    raise EgressFailed(f"the file has {declared} bytes, more than {limit}", code="too_large")
                name = response.content_disposition.filename if response.content_disposition else None
                return await self._store(capped(response, limit), response.content_type, attachment.file_name or name, folder)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Answer("unknown", errmsg=type(error).__name__)

    async def _by_url(self, url: str, said: str, file_name: str | None, folder: Path, limit: int) -> StoredMedia:
        async with self._egress.fetch(url, said=said, max_bytes=limit) as found:
            return await self._store(found.chunks, found.content_type, file_name or found.file_name, folder)

    async def _store(self, chunks: AsyncIterator[bytes], content_type: str, file_name: str | None, folder: Path) -> StoredMedia:
        suffix = _SUFFIXES.get(content_type.lower(), "")
        path = folder / f"{secrets.token_hex(16)}{suffix}"
        part = path.with_name(path.name + ".part")
        size = 0
        target = await asyncio.to_thread(_open_private, part)
        try:
            async for chunk in chunks:
                size += len(chunk)
                await asyncio.to_thread(target.write, chunk)
            await asyncio.to_thread(_finish, target, part, path)
        except BaseException:
            await asyncio.to_thread(_discard, target, part)
            raise
        return StoredMedia(path, size, content_type, file_name)

    def _folder(self, tenant_id: str, account_id: str, user_id: str) -> Path:
        person = hashlib.sha256(f"{tenant_id}\0{account_id}\0{user_id}".encode()).hexdigest()[:32]
        return day_folder(self._root, self._clock) / person


def egress_for(allow_hosts: Iterable[str] = (), *, allow_loopback: bool = False) -> Egress:
    """The egress of media: the platforms' own hosts and what else is allowed; with loopback the simulator's too."""
    simulator = (".localhost", "127.0.0.1") if allow_loopback else ()
    return Egress((*PLATFORM_HOSTS, *simulator, *allow_hosts), allow_loopback=allow_loopback)


def fetcher(store: MediaStore, clients: Mapping[str, MediaSource]) -> Callable[[InboundMessage, Attachment], Awaitable[Content]]:
    """What the assistant is handed: downloads one attachment of a message, gives a safe name (with extension) and the bytes."""

    async def fetch(message: InboundMessage, attachment: Attachment) -> Content:
        client = clients.get(message.account_id)
        if client is None:
            raise MediaRefused("no such account")
        stored = await store.fetch(
            client,
            attachment,
            tenant_id=message.tenant_id,
            account_id=message.account_id,
            user_id=message.user_id,
            said=message.text,
        )
        return stored.path.name, await asyncio.to_thread(stored.path.read_bytes)

    return fetch


async def _once(body: bytes, limit: int) -> AsyncIterator[bytes]:
    if len(body) > limit:
        raise EgressFailed(f"the file has more than {limit} bytes", code="too_large")
    yield body


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _used_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) if folder.is_dir() else 0


def _open_private(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        folder.chmod(0o700)
    target = path.open("xb")
    path.chmod(0o600)
    return target


def _finish(target: BinaryIO, part: Path, path: Path) -> None:
    target.close()
    part.rename(path)


def _discard(target: BinaryIO, part: Path) -> None:
    target.close()
    part.unlink(missing_ok=True)
