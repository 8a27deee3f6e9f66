"""A named fake channel: one account whose platform answers with the outcomes a test lines up, and remembers every send."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import SecretStr

from agent.protocol import InboundMessage, Platform, Reply
from config.errors import YizhanError
from config.schema import MpAccount, WecomAccount
from gateway.channel import CallbackRequest, Opened, Part, SendOutcome, Target

OK = SendOutcome("answered", errcode=0, errmsg="ok", platform_id="m1")
LOST = SendOutcome("unknown", errmsg="no answer in time")
NOT_SENT = SendOutcome("not_sent", errmsg="connection refused")


def answered(errcode: int, errmsg: str = "", **more: Any) -> SendOutcome:
    """The platform's answer with this errcode."""
    return SendOutcome("answered", errcode=errcode, errmsg=errmsg, **more)


def wecom_account(account_id: str = "wecom-main", agent_id: int = 1000002) -> WecomAccount:
    """A WeCom app of the tests."""
    return WecomAccount(
        id=account_id,
        platform="wecom",
        corp_id="ww0123456789abcdef",
        agent_id=agent_id,
        secret=SecretStr("s3cret"),
        callback_token="token",
        encoding_aes_key=SecretStr("a" * 43),
    )


def mp_account(account_id: str = "mp-main") -> MpAccount:
    """An Official Account of the tests."""
    return MpAccount(
        id=account_id,
        platform="mp",
        app_id="wx0123456789abcdef",
        app_secret=SecretStr("s3cret"),
        callback_token="token",
        encoding_aes_key=SecretStr("a" * 43),
    )


@dataclass
class FakeChannel:
    """Renders into pieces of ``limit`` characters; ``outcomes`` are used up in order, then everything is OK.

    ``freeze_error`` is raised by the next ``freeze_errors`` freezes.
    ``hold``: while set and not fired, every send waits for it (to be killed or overtaken mid-send); ``probe_hold``
    does the same to probes.
    """

    account: WecomAccount | MpAccount = field(default_factory=wecom_account)
    tenant_id: str = "acme"
    platform: Platform = field(init=False)
    limit: int = 200
    handle: bool = True
    passive: bool = True
    outcomes: deque[SendOutcome] = field(default_factory=deque)
    ability: Literal["push", "pull", "unknown"] = "push"
    freeze_error: YizhanError | None = None
    freeze_errors: int = 0
    hold: asyncio.Event | None = None
    probe_hold: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[tuple[str, bytes, Target]] = field(default_factory=list)
    accepted: list[tuple[str, Target]] = field(default_factory=list)
    probes: int = 0
    probing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.platform = self.account.platform

    @property
    def texts(self) -> list[str]:
        """The text of every accepted message, in order."""
        return [text for text, _ in self.accepted]

    def expect(self, *outcomes: SendOutcome) -> None:
        """Line up the next outcomes."""
        self.outcomes.extend(outcomes)

    def verify_url(self, request: CallbackRequest) -> bytes:
        """Not used by these tests."""
        raise NotImplementedError

    def open(self, request: CallbackRequest) -> Opened:
        """Not used by these tests."""
        raise NotImplementedError

    def normalize(self, payload: bytes, *, is_json: bool, received_at_ms: int, check_recipient: bool = True) -> InboundMessage:
        """Not used by these tests."""
        raise NotImplementedError

    def ack(self) -> bytes:
        """The platform's empty acknowledgement."""
        return b"" if self.platform == "wecom" else b"success"

    def can_passive(self, part: Part) -> bool:
        """As the test says, texts only."""
        return self.passive and part.kind == "text"

    def seal(self, part: Part, message: InboundMessage, opened: Opened) -> tuple[bytes, str]:
        """The readable text, unencrypted."""
        return part.text.encode(), "text/plain"

    def render(self, reply: Reply) -> list[Part]:
        """Pieces of ``limit`` characters."""
        if reply.kind not in ("text", "markdown"):
            return [Part(reply.kind, dict(reply.data), reply.text)]
        pieces = [reply.text[start : start + self.limit] for start in range(0, len(reply.text), self.limit)]
        return [Part(reply.kind, {"content": piece}, piece) for piece in pieces]

    def degrade(self, part: Part) -> Part | None:
        """The words of anything but a text."""
        return None if part.kind == "text" or not part.text else Part("text", {"content": part.text}, part.text, part.page)

    def send_handle(self, kind: str) -> bool:
        """As the test says."""
        return self.handle

    async def freeze(self, part: Part, target: Target, *, duplicate_check: bool, key: str) -> bytes:
        """A request body as JSON; the key enters only where a platform would take it (cards)."""
        if self.freeze_error is not None and self.freeze_errors > 0:
            self.freeze_errors -= 1
            raise self.freeze_error
        body: dict[str, Any] = {"to": _addresses(target), "kind": part.kind, "payload": dict(part.payload), "text": part.text}
        if duplicate_check:
            body["check"] = 1
        if part.kind == "template_card":
            body["task_id"] = key
        return json.dumps(body, ensure_ascii=False).encode()

    async def send(self, kind: str, body: bytes, *, target: Target) -> SendOutcome:
        """The next outcome."""
        self.calls.append((kind, body, target))
        self.entered.set()
        outcome = self.outcomes.popleft() if self.outcomes else OK
        if self.hold is not None:
            await self.hold.wait()
        if outcome.transport == "answered" and outcome.errcode == 0:
            self.accepted.append((json.loads(body)["text"], target))
        return outcome

    async def probe(self) -> Literal["push", "pull", "unknown"]:
        """The ability the test set."""
        self.probes += 1
        self.probing.set()
        if self.probe_hold is not None:
            await self.probe_hold.wait()
        return self.ability


def _addresses(target: Target) -> list[Sequence[str] | str | None]:
    return [target.users, target.departments, target.tags, target.webhook]
