"""Inbound media is downloaded lazily, within limits, to a private place (N-21)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from agent.protocol import Attachment
from config.clock import FixedClock
from config.schema import MediaSettings
from gateway.channels import Channels, open_channels
from gateway.errors import PlatformError
from gateway.media import MediaRefused, MediaStore, StoredMedia
from tests.fakes.accounts import mp_account, settings_of, wecom_account
from tests.fakes.platform import Platform, serve
from tools.egress import Egress, EgressRefused


class World:
    """A platform with media, a store of 1 KiB files and 2 KiB a day."""

    def __init__(self, platform: Platform, session: aiohttp.ClientSession, folder: Path) -> None:
        platform.answers["/cgi-bin/gettoken"] = [{"errcode": 0, "access_token": f"token-{n}", "expires_in": 7200} for n in (1, 2)]
        platform.answers["/cgi-bin/stable_token"] = [{"access_token": "token-m", "expires_in": 7200}]
        self.platform, self.folder, self.clock = platform, folder, FixedClock()
        settings = settings_of(wecom_account(api_base=platform.base), mp_account(api_base=platform.base))
        self.channels: Channels = open_channels(settings, session, None, self.clock)
        limits = MediaSettings(max_bytes=1024, daily_bytes_per_person=2048)
        egress = Egress([platform.base.removeprefix("http://")], allow_loopback=True)
        self.store = MediaStore(folder, limits, self.clock, self.channels.tokens, egress)

    async def fetch(
        self, attachment: Attachment, *, account: str = "wecom-main", user: str = "zhangsan", said: str = ""
    ) -> StoredMedia:
        client = self.channels.clients[account]
        return await self.store.fetch(client, attachment, tenant_id="acme", account_id=account, user_id=user, said=said)

    def serve_media(self, body: bytes, content_type: str = "image/jpeg", name: str = "MEDIA_ID.jpg") -> None:
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": content_type}
        self.platform.answers["/cgi-bin/media/get"] = lambda _r, _b: web.Response(body=body, headers=headers)


IMAGE = Attachment("image", media_id="M1")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with serve(Platform()) as platform, aiohttp.ClientSession() as session:
        yield World(platform, session, tmp_path)


async def test_n21_a_file_gets_a_random_name_in_a_private_folder(world: World) -> None:
    """N-21: nothing of the sender is in the path, and nobody else may read it."""
    world.serve_media(b"jpeg bytes", name="../../etc/passwd.jpg")
    stored = await world.fetch(IMAGE)
    assert stored.path.read_bytes() == b"jpeg bytes"
    assert (stored.size_bytes, stored.content_type, stored.path.suffix) == (10, "image/jpeg", ".jpg")
    assert stored.path.is_relative_to(world.folder / "media")
    assert "passwd" not in str(stored.path)
    assert "zhangsan" not in str(stored.path)
    assert stored.path.parent.stat().st_mode & 0o777 == 0o700
    assert stored.path.stat().st_mode & 0o777 == 0o600
    again = await world.fetch(IMAGE)
    assert again.path != stored.path


async def test_n21_too_large_is_refused_and_leaves_nothing(world: World) -> None:
    """N-21: by the declared length and while reading; 830002 likewise."""

    async def endless(request: web.Request, _body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "image/jpeg"})
        await response.prepare(request)
        for _ in range(10):
            await response.write(b"x" * 512)
        return response

    world.serve_media(b"x" * 1025)
    declared = world.platform.answers["/cgi-bin/media/get"]
    for answer in (declared, endless, [{"errcode": 830002, "errmsg": "too large"}]):
        world.platform.answers["/cgi-bin/media/get"] = answer
        with pytest.raises(MediaRefused) as caught:
            await world.fetch(IMAGE)
        assert caught.value.code == "media_too_large"
    assert [file for file in world.folder.rglob("*") if file.is_file()] == []


async def test_n21_a_daily_quota_per_person(world: World) -> None:
    """N-21: two KiB a day each; tomorrow again."""
    world.serve_media(b"x" * 1000)
    await world.fetch(IMAGE)
    await world.fetch(IMAGE)
    with pytest.raises(MediaRefused) as caught:
        await world.fetch(IMAGE)
    assert caught.value.code == "media_quota"
    await world.fetch(IMAGE, user="lisi")
    world.clock.advance(86_400)
    await world.fetch(IMAGE)


async def test_a_stale_token_is_refreshed_once(world: World) -> None:
    """media/get answers errors as JSON with HTTP 200."""
    world.serve_media(b"jpeg")
    media = world.platform.answers["/cgi-bin/media/get"]
    assert callable(media)

    def by_token(request: web.Request, body: bytes) -> object:
        if request.query["access_token"] == "token-1":
            return {"errcode": 42001, "errmsg": "access_token expired"}
        return media(request, body)

    world.platform.answers["/cgi-bin/media/get"] = by_token  # type: ignore[assignment]
    assert (await world.fetch(IMAGE)).size_bytes == 4
    assert len(world.platform.calls("/cgi-bin/media/get")) == 2


@pytest.mark.parametrize(("errcode", "error"), [(40007, MediaRefused), (-1, PlatformError), (60020, PlatformError)])
async def test_the_platforms_refusals_are_typed(world: World, errcode: int, error: type[Exception]) -> None:
    world.platform.answers["/cgi-bin/media/get"] = [{"errcode": errcode, "errmsg": "x token-1"}]
    with pytest.raises(error) as caught:
        await world.fetch(IMAGE)
    assert "token-1" not in str(caught.value) + getattr(caught.value, "errmsg", "")


async def test_an_official_accounts_video_comes_from_its_url_if_that_is_allowed(world: World) -> None:
    """N-20: {video_url} is followed to known hosts only."""
    world.platform.answers["/v.mp4"] = lambda _r, _b: web.Response(body=b"mp4 bytes", content_type="video/mp4")
    world.platform.answers["/cgi-bin/media/get"] = [{"video_url": f"{world.platform.base}/v.mp4"}]
    stored = await world.fetch(Attachment("video", media_id="V1"), account="mp-main")
    assert (stored.path.read_bytes(), stored.path.suffix) == (b"mp4 bytes", ".mp4")
    world.platform.answers["/cgi-bin/media/get"] = [{"video_url": "http://203.0.113.9/video.mp4"}]
    with pytest.raises(EgressRefused):
        await world.fetch(Attachment("video", media_id="V1"), account="mp-main")


async def test_a_picture_falls_back_to_its_address(world: World) -> None:
    """An account without the media permission (48001) still reads the PicUrl."""
    world.platform.answers["/pic"] = lambda _r, _b: web.Response(body=b"png bytes", content_type="image/png")
    world.platform.answers["/cgi-bin/media/get"] = [{"errcode": 48001, "errmsg": "api unauthorized"}]
    stored = await world.fetch(Attachment("image", media_id="M", url=f"{world.platform.base}/pic"), account="mp-main")
    assert stored.path.read_bytes() == b"png bytes"


async def test_a_text_file_is_media_too(world: World) -> None:
    world.serve_media("名单,1\n".encode(), content_type="text/plain", name="a.csv")
    stored = await world.fetch(Attachment("file", media_id="F1", file_name="名单.csv"))
    assert stored.path.read_text("utf-8") == "名单,1\n"
    assert stored.file_name == "名单.csv"
