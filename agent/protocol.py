"""The internal protocol: what a platform message becomes, and what a turn answers. No XML, errcode or HTTP here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Connection

Platform = Literal["wecom", "mp"]
MessageKind = Literal["text", "image", "voice", "video", "file", "location", "link", "event", "unsupported"]
IdType = Literal["wecom_userid", "open_id", "external_userid", "system"]
SubjectKind = Literal["user", "customer"]
ChatType = Literal["single", "group"]
EventName = Literal[
    "subscribe",
    "unsubscribe",
    "enter",
    "menu_click",
    "menu_view",
    "scan",
    "scan_code",
    "pick_photo",
    "pick_location",
    "location_report",
    "card_click",
    "card_menu",
    "template_result",
    "mass_result",
    "publish_result",
    "subscribe_message",
    "authorization",
    "contact_change",
    "approval_change",
    "batch_result",
    "upload_result",
    "app_state",
    "security_change",
    "share_change",
    "suite",
    "kf",
    "other",
]
"""The closed set of our event names; the platform's own name stays in ``Event.raw_name``."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A reference to media the person sent; never the bytes. ``fields`` keeps what else the platform told."""

    kind: Literal["image", "voice", "video", "file", "link", "location"]
    media_id: str | None = None
    url: str | None = None
    file_name: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, said by the platform. ``payload`` holds every field of it as strings, dicts and lists.

    ``key`` is the menu key, QR scene or button key exactly as spelled; ``task_id`` and ``response_code`` belong to cards;
    ``card_values`` maps a question key to the chosen option ids.
    """

    name: EventName
    raw_name: str
    key: str | None = None
    task_id: str | None = None
    response_code: str | None = None
    card_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """One thing a person (or the platform) sent to one account, normalized. Ids are strings exactly as spelled.

    ``user_id`` is the sender's id as spelled, ``peer_id`` what the conversation is keyed by (WeCom ids lower-cased; a
    group's chat id in a group). ``text`` is what the person typed (or voice recognition said, then
    ``typed`` is False); it is never stripped. ``menu_item_id`` is the ``bizmsgmenuid`` of a clicked menu item.
    ``idempotency_key`` is the same for every redelivery. Times are UTC epoch milliseconds.
    """

    platform: Platform
    account_id: str
    tenant_id: str
    chat_type: ChatType
    peer_id: str
    user_id: str
    id_type: IdType
    kind: MessageKind
    text: str
    raw_type: str
    message_id: str | None
    idempotency_key: str
    sent_at_ms: int
    received_at_ms: int
    typed: bool = True
    attachments: tuple[Attachment, ...] = ()
    event: Event | None = None
    menu_item_id: str | None = None
    clock_skew_ms: int = 0
    """How far our clock is ahead of the platform's, measured on this very callback; 0 within the usual second or two."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Every element of the payload by its platform name, repeated ones as lists: for inspection and the case of need."""

    @property
    def said_at_ms(self) -> int:
        """When the person said it, by our clock: the platform's CreateTime moved by the measured skew (N-08)."""
        return self.sent_at_ms + self.clock_skew_ms

    @property
    def subject_kind(self) -> SubjectKind:
        """``user`` for a WeCom member, ``customer`` for everybody else (N-12)."""
        return "user" if self.id_type == "wecom_userid" else "customer"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock (seconds)."""

    at: float

    def remaining_s(self, now: float) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - now)


ReplyKind = Literal["text", "markdown", "image", "voice", "file", "news", "template_card", "template", "msgmenu", "card_update"]
ReplySource = Literal["fixed", "rule", "model", "tool", "confirm_prompt"]


@dataclass(frozen=True, slots=True)
class Reply:
    """One message to the person, before any platform's limits. ``text`` is also the plain-text form of a card or menu.

    ``data`` holds what the kind needs (card JSON without platform envelope, media ``path`` or ``media_id``, articles).
    ``source`` decides the AI label and whether links are stripped (only ``fixed`` and ``confirm_prompt`` may carry
    our own markup, N-16). ``action_id`` names the pending action a confirmation prompt belongs to.
    """

    text: str = ""
    kind: ReplyKind = "text"
    data: Mapping[str, Any] = field(default_factory=dict)
    source: ReplySource = "fixed"
    action_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Work known to be long: the turn ends with a receipt and this is queued. ``name`` is in the fixed job table (N-19)."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


Write = Callable[[Connection], None]
"""A database write that joins the transaction which stores the turn's answer; it must not block or await."""

Outcome = Literal["answered", "command", "asked", "partial", "deferred", "stopped", "failed", "empty"]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a turn answers. ``writes`` are committed together with the answer's outbox rows, under the turn's fence.

    ``error_code`` is set for ``failed``; ``job`` for ``deferred`` (``replies`` then hold the receipt).
    """

    replies: tuple[Reply, ...] = ()
    outcome: Outcome = "answered"
    writes: tuple[Write, ...] = ()
    job: JobRequest | None = None
    error_code: str | None = None

    @property
    def text(self) -> str:
        """All plain texts of the answer, one paragraph a reply."""
        return "\n".join(reply.text for reply in self.replies if reply.text)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a turn runs: ids of the conversation, its current session, and the fence every write checks (N-02)."""

    tenant_id: str
    account_id: str
    conversation_id: str
    session_id: str
    user_id: str
    id_type: IdType
    chat_type: ChatType
    fence: int
    inbound_seq: int | None = None
    """The stored row this turn answers; the base of idempotency keys of what it does."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What the account's channel can do for this person now (N-26)."""

    can_push: bool
    can_card: bool
    can_menu: bool
    trusted: bool = True
    """False for plain-mode accounts: no memory, no tools, no confirmations (N-11)."""
