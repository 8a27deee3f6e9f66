"""What a platform must offer: the extension point. One ``Channel`` object serves one account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent.protocol import InboundMessage, Platform, Reply
from config.errors import YizhanError
from config.schema import MpAccount, WecomAccount


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """One HTTP request to a callback URL, free of any web framework. ``query`` keeps repeated keys."""

    method: str
    query: Mapping[str, tuple[str, ...]]
    body: bytes = b""
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class CallbackReply:
    """The HTTP answer. ``close`` means: answer nothing, drop the connection, so the platform delivers again (N-01)."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    close: bool = False


class CallbackRejected(YizhanError):
    """A callback that is not what it claims to be. ``status`` is always a 4xx; ``hint`` tells the operator the fix (log only).

    Codes of the envelope: bad_signature, receive_id_mismatch, invalid_aes_key, bad_base64, bad_length, bad_padding,
    too_short, bad_msg_len; of the request: missing_parameter, repeated_parameter, stale, too_large, bad_content_type,
    not_encrypted, bad_xml, bad_json, wrong_agent, wrong_recipient, bad_message.
    """

    def __init__(self, code: str, *, status: int = 403, hint: str = "") -> None:
        super().__init__(f"callback rejected: {code}", code=code)
        self.status = status
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Opened:
    """A verified callback: the decrypted payload, and what sealing the reply needs."""

    payload: bytes
    encrypted: bool
    is_json: bool
    timestamp_s: int


@dataclass(frozen=True, slots=True)
class Part:
    """One platform message: within all limits, ready to be frozen. ``payload`` is JSON-able; ``text`` its readable form.

    ``page`` 0 goes at once; parts of a later page wait behind 继续 (the last part of the page before offers it).
    """

    kind: str
    payload: Mapping[str, Any]
    text: str
    page: int = 0


ALERT_ROBOT = "@alert"
"""The reserved robot name that stands for ``tenant.alert_webhook`` in a target."""


@dataclass(frozen=True, slots=True)
class Target:
    """Who gets a part: users (platform ids), departments, tags, or a group robot by its settings id."""

    users: tuple[str, ...] = ()
    departments: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    webhook: str | None = None


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """What the platform said. ``transport``: answered (errcode counts), not_sent (never left us), unknown (may have arrived)."""

    transport: Literal["answered", "not_sent", "unknown"]
    errcode: int | None = None
    errmsg: str = ""
    platform_id: str | None = None
    response_code: str | None = None
    invalid_users: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


class Channel(Protocol):
    """One account of one platform."""

    account: WecomAccount | MpAccount
    tenant_id: str
    platform: Platform

    # in -------------------------------------------------------------------------------------------------------------
    def verify_url(self, request: CallbackRequest) -> bytes:
        """Answer the platform's URL check: exactly these bytes. Raises CallbackRejected."""
        ...

    def open(self, request: CallbackRequest) -> Opened:
        """Verify and decrypt a POST. Raises CallbackRejected. Does not check freshness (the caller does)."""
        ...

    def normalize(self, payload: bytes, *, is_json: bool, received_at_ms: int, check_recipient: bool = True) -> InboundMessage:
        """Parse a decrypted payload. Raises CallbackRejected (bad_xml, bad_json, wrong_agent, wrong_recipient, bad_message)."""
        ...

    # passive --------------------------------------------------------------------------------------------------------
    def ack(self) -> bytes:
        """The body that acknowledges without answering: b"" (WeCom) or b"success" (Official Account)."""
        ...

    def can_passive(self, part: Part) -> bool:
        """Whether this part may travel in the HTTP response."""
        ...

    def seal(self, part: Part, message: InboundMessage, opened: Opened) -> tuple[bytes, str]:
        """The passive reply: body (encrypted when the callback was) and content type. Times and nonces are fresh."""
        ...

    # out ------------------------------------------------------------------------------------------------------------
    def render(self, reply: Reply) -> list[Part]:
        """Split and down-convert a reply into parts that fit (numbered, within bytes, never cut inside a character)."""
        ...

    def degrade(self, part: Part) -> Part | None:
        """The simpler form of a part the platform refused (card and markdown as text, media as link or notice), or None."""
        ...

    def send_handle(self, kind: str) -> bool:
        """Whether the platform recognizes a repeated send of this kind (duplicate check, task_id, client_msg_id)."""
        ...

    async def freeze(self, part: Part, target: Target, *, duplicate_check: bool, key: str) -> bytes:
        """The exact request body for this part, media uploaded first. ``key`` seeds platform handles. Raises YizhanError."""
        ...

    async def send(self, kind: str, body: bytes, *, target: Target) -> SendOutcome:
        """Send a frozen body once; refreshes the access_token at most once on its errcodes. Never raises for the platform's
        answers."""
        ...

    async def probe(self) -> Literal["push", "pull", "unknown"]:
        """Ask the platform whether this account may push; at most 2 s."""
        ...
