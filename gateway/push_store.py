"""Pushes in the database: one push row, one outbox group a target; asking about them, taking them back."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.ids import new_id
from config.ports import Draft
from gateway import push_states, texts
from gateway.channel import Channel
from gateway.day_folders import day_folder
from gateway.models import Push
from gateway.outbox import SqlOutbox
from gateway.outbox_rows import reply_of
from gateway.outbox_states import ROWS, Status, move
from gateway.push_request import MediaMessage, PushRefused, PushRequest
from gateway.push_states import PushView
from memory.keys import conversation_id
from memory.models import Conversation

_PUSH = table_of(Push)
_CONVERSATION = table_of(Conversation)
_CHUNK = 250
_TAKEN_BACK: tuple[Status, ...] = ("pending", "parked")
SPACING_MS = 10.0
"""Long lists become due 100 a second, so that answers to people go between them."""
_KINDS: Mapping[str, frozenset[str]] = {
    "wecom": frozenset({"text", "markdown", "image", "file", "voice", "news", "template_card"}),
    "mp": frozenset({"text", "markdown", "image", "voice", "news", "template", "msgmenu"}),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A committed push: its id and, in the order asked, each target with its outbox group."""

    id: str
    targets: tuple[tuple[Mapping[str, Any], str], ...]
    repeated: bool


@dataclass(frozen=True, slots=True)
class _Target:
    key: str
    shown: Mapping[str, Any]
    conversation_id: str
    user_id: str
    session_id: str | None = None
    target: Mapping[str, Any] | None = field(default=None)


class PushStore:
    """Stores and finds the pushes of tenants. ``media_dir`` is where given file contents are kept until they are sent."""

    def __init__(
        self,
        database: Database,
        outbox: SqlOutbox,
        channels: Mapping[str, Channel],
        clock: Clock,
        media_dir: Path,
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._channels = channels
        self._clock = clock
        self._media_dir = media_dir

    async def known(self, tenant_id: str, request: PushRequest) -> bool:
        """Whether this very push was stored before. Raises PushRefused (409) for its key with other content."""
        push_id = _push_id(tenant_id, request)
        if push_id is None:
            return False
        digest = await self._database.read(lambda c: c.execute(select(_PUSH.c.digest).where(_PUSH.c.id == push_id)).scalar())
        if digest is not None and digest != request.digest():
            raise PushRefused(
                "key_reused", texts.PUSH_KEY_REUSED, status=409, field="idempotency_key", fix=texts.PUSH_KEY_REUSED_FIX
            )
        return digest is not None

    async def store(self, tenant_id: str, api_key_id: str, request: PushRequest) -> Stored:
        """Commit a push; the same key again completes and returns the same one. Raises PushRefused."""
        channel = self._check(tenant_id, request)
        repeated = await self.known(tenant_id, request)
        push_id = _push_id(tenant_id, request) or new_id("p")
        targets = await self._database.read(lambda c: self._targets(c, tenant_id, channel, request))
        data = dict(request.message.data())
        if isinstance(request.message, MediaMessage):
            day = day_folder(self._media_dir, self._clock, max(self._clock.now_ms(), request.not_before or 0))
            data |= await asyncio.to_thread(_keep_content, day / push_id, request.message)
        drafts = [self._draft(tenant_id, push_id, request, target, data) for target in targets]
        if not channel.render(reply_of(drafts[0])):
            raise PushRefused("empty_message", texts.PUSH_EMPTY, field="message", fix=texts.PUSH_EMPTY_FIX)
        row = {
            "id": push_id,
            "tenant_id": tenant_id,
            "account_id": request.account,
            "api_key_id": api_key_id,
            "idempotency_key": request.idempotency_key,
            "digest": request.digest(),
            "targets": len(targets),
            "created_at_ms": self._clock.now_ms(),
        }
        stored = await self._database.write(lambda c: _insert_push(c, row))
        if not stored:
            await self.known(tenant_id, request)  # somebody stored this key a moment ago: with the same content?
            repeated = True
        groups: list[str] = []
        for start in range(0, len(drafts), _CHUNK):
            chunk = drafts[start : start + _CHUNK]
            spacing = SPACING_MS if len(drafts) > 20 else 0.0
            groups += await self._database.write(lambda c: self._outbox.put_same(c, chunk, spacing_ms=spacing))  # noqa: B023
        shown = tuple((target.shown, group) for target, group in zip(targets, groups, strict=True))
        return Stored(push_id, shown, repeated)

    async def view(self, tenant_id: str, accounts: Sequence[str] | None, push_id: str) -> PushView | None:
        """A push with each target's state; None when the tenant (or the key's accounts) has no such push."""
        return await self._database.read(lambda c: push_states.view(c, tenant_id, accounts, push_id))

    async def cancel(self, tenant_id: str, accounts: Sequence[str] | None, push_id: str) -> int | None:
        """Take back what has not been sent; how many targets' rows, or None when there is no such push."""

        def take_back(connection: Connection) -> int | None:
            if push_states.find(connection, tenant_id, accounts, push_id) is None:
                return None
            mine = (ROWS.c.cause_id == push_id) & (ROWS.c.cause == "push")
            return sum(move(connection, mine, state, "cancelled") for state in _TAKEN_BACK)

        return await self._database.write(take_back)

    # inside ---------------------------------------------------------------------------------------------------------
    def _check(self, tenant_id: str, request: PushRequest) -> Channel:
        channel = self._channels.get(request.account)
        if channel is None or channel.tenant_id != tenant_id:
            raise PushRefused(
                "unknown_account", texts.PUSH_NO_ACCOUNT, status=404, field="account", fix=texts.PUSH_NO_ACCOUNT_FIX
            )
        if request.message.kind not in _KINDS[channel.platform]:
            fix = texts.PUSH_KIND_FIX.format(kinds=", ".join(sorted(_KINDS[channel.platform])))
            raise PushRefused("bad_kind", texts.PUSH_KIND, field="message.kind", fix=fix)
        groups = request.to.departments or request.to.tags or request.to.all
        if channel.platform == "mp" and groups:
            raise PushRefused("bad_target", texts.PUSH_MP_TARGET, field="to", fix=texts.PUSH_MP_TARGET_FIX)
        if request.expires_at is not None and request.expires_at <= self._clock.now_ms():
            raise PushRefused("expired", texts.PUSH_EXPIRED, field="expires_at", fix=texts.PUSH_EXPIRED_FIX)
        return channel

    def _targets(self, connection: Connection, tenant_id: str, channel: Channel, request: PushRequest) -> list[_Target]:
        to, account = request.to, request.account
        if to.users is not None:
            return _user_targets(connection, tenant_id, channel, account, to.users)
        if to.conversation is not None:
            row = connection.execute(
                select(_CONVERSATION).where(
                    _CONVERSATION.c.id == to.conversation,
                    _CONVERSATION.c.tenant_id == tenant_id,
                    _CONVERSATION.c.account_id == account,
                )
            ).first()
            if row is None:
                raise PushRefused(
                    "unknown_conversation",
                    texts.PUSH_NO_CONVERSATION,
                    status=404,
                    field="to.conversation",
                    fix=texts.PUSH_NO_CONVERSATION_FIX,
                )
            shown = {"conversation": row.id}
            return [_Target(f"c:{row.id}", shown, row.id, row.user_id, row.session_id)]
        if to.all:
            line = conversation_id(tenant_id, account, "push", "@all")
            return [_Target("@all", {"all": True}, line, "@all", None, {"users": ["@all"]})]
        name, ids = ("departments", to.departments) if to.departments is not None else ("tags", to.tags or ())
        key = f"{name}:{'|'.join(ids)}"
        line = conversation_id(tenant_id, account, "push", key)
        return [_Target(key, {name: list(ids)}, line, key[:120], None, {name: list(ids)})]

    def _draft(self, tenant_id: str, push_id: str, request: PushRequest, target: _Target, data: Mapping[str, Any]) -> Draft:
        return Draft(
            idempotency_key=f"push:{push_id}:{target.key}",
            tenant_id=tenant_id,
            account_id=request.account,
            conversation_id=target.conversation_id,
            user_id=target.user_id,
            session_id=target.session_id,
            cause="push",
            cause_id=push_id,
            kind=request.message.kind,
            text=request.message.text,
            data=data,
            source="tool",
            target=target.target,
            not_before_ms=request.not_before,
            expires_at_ms=request.expires_at,
        )


def _user_targets(connection: Connection, tenant_id: str, channel: Channel, account: str, users: Sequence[str]) -> list[_Target]:
    """One target a person, in order, each once; with the session of those who talk with us."""
    peers: dict[str, str] = {}
    for user in users:
        peers.setdefault(user.lower() if channel.platform == "wecom" else user, user)
    lines = {peer: conversation_id(tenant_id, account, "single", peer) for peer in peers}
    sessions: dict[str, str | None] = {}
    known = list(lines.values())
    for start in range(0, len(known), _CHUNK):
        query = select(_CONVERSATION.c.id, _CONVERSATION.c.session_id).where(
            _CONVERSATION.c.id.in_(known[start : start + _CHUNK])
        )
        sessions |= {row[0]: row[1] for row in connection.execute(query)}
    return [_Target(f"u:{peer}", {"user": peers[peer]}, line, peers[peer], sessions.get(line)) for peer, line in lines.items()]


def _insert_push(connection: Connection, row: Mapping[str, Any]) -> bool:
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(_PUSH).values(**row).on_conflict_do_nothing(index_elements=["id"])
    return connection.execute(statement).rowcount == 1


def _push_id(tenant_id: str, request: PushRequest) -> str | None:
    """A push with a key has an id derived from it, so that storing it twice is one row."""
    if request.idempotency_key is None:
        return None
    framed = f"{len(tenant_id)}:{tenant_id}{len(request.account)}:{request.account}{request.idempotency_key}"
    return "p" + hashlib.sha256(framed.encode()).hexdigest()[:31]


def _keep_content(folder: Path, message: MediaMessage) -> dict[str, Any]:
    """Store a given file under a name of chance; ``file_name`` is only what the receiver sees."""
    content = message.content()
    if content is None:
        return {}
    name = Path((message.file_name or "").replace("\\", "/")).name or "file"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / (secrets.token_hex(8) + Path(name).suffix[:12])
    path.write_bytes(content)
    return {"path": str(path), "file_name": name}
