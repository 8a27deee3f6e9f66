"""Opens the channel of every configured account: clients, tokens and channels that share one HTTP session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from redis.asyncio import Redis

from config.clock import Clock
from config.schema import MpAccount, Settings
from gateway.channel import Channel
from gateway.mp.channel import MpChannel
from gateway.mp.client import MpClient
from gateway.tokens import AlertHook, TokenStore
from gateway.wecom.channel import WecomChannel
from gateway.wecom.client import WecomClient

_KEEPALIVE_S = 15.0
"""Shorter than the platforms' own, so that a request seldom meets a connection that is closing."""


@dataclass(frozen=True, slots=True)
class Channels:
    """Every account's channel and API client by account id, and the tokens they share."""

    by_account: Mapping[str, Channel]
    clients: Mapping[str, WecomClient | MpClient]
    tokens: TokenStore


def open_session() -> aiohttp.ClientSession:
    """The one client session of a process; it never follows the environment's proxies and keeps no cookies."""
    connector = aiohttp.TCPConnector(limit=200, limit_per_host=100, keepalive_timeout=_KEEPALIVE_S, ttl_dns_cache=60)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


def open_channels(
    settings: Settings, session: aiohttp.ClientSession, redis: Redis | None, clock: Clock, *, on_alert: AlertHook | None = None
) -> Channels:
    """One channel an account. Nothing is sent; tokens are fetched when first needed."""
    clients: dict[str, WecomClient | MpClient] = {}
    channels: dict[str, Channel] = {}

    async def fetch(account_id: str, force: bool) -> tuple[str, int]:
        return await clients[account_id].fetch_token(force)

    tokens = TokenStore(redis, clock, fetch, on_alert=on_alert)
    parts = settings.limits.max_parts
    for tenant in settings.tenants:
        for account in tenant.accounts:
            tokens.add(account)
            root = settings.data_dir
            if isinstance(account, MpAccount):
                mp = MpClient(account, session, tokens)
                clients[account.id] = mp
                channels[account.id] = MpChannel(account, tenant, mp, clock, max_parts=parts, media_root=root)
            else:
                wecom = WecomClient(account, session, tokens)
                clients[account.id] = wecom
                channels[account.id] = WecomChannel(account, tenant, wecom, clock, max_parts=parts, media_root=root)
    return Channels(channels, clients, tokens)
