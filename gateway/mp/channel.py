"""One Official Account as a Channel."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agent.protocol import InboundMessage, Platform, Reply
from config.clock import Clock
from config.schema import MpAccount, Tenant, WecomAccount
from gateway.channel import CallbackRequest, Opened, Part, SendOutcome, Target
from gateway.errors import stale_media
from gateway.mp import crypto, inbound, outbound, passive
from gateway.mp.client import MpClient
from gateway.outgoing_media import MediaUploads
from gateway.probing import within
from gateway.transport import json_bytes

_NOBODY = "o" + "0" * 27
"""An openid of nobody: the answer tells whether the account may use customer-service messages at all."""
_NO_PUSH = frozenset({48001, 48004, 50001})


class MpChannel:
    """Implements gateway.channel.Channel for one account. ``media_root``: only files below it are sent (None = any)."""

    platform: Platform = "mp"

    def __init__(
        self,
        account: MpAccount,
        tenant: Tenant,
        client: MpClient,
        clock: Clock,
        *,
        max_parts: int = 5,
        media_root: Path | None = None,
    ) -> None:
        self.account: WecomAccount | MpAccount = account
        self._account = account
        self.tenant_id = tenant.id
        self.client = client
        self._clock = clock
        self._max_parts = max_parts
        self.media = MediaUploads("mp", client.upload_media, outbound.MEDIA_LIMITS_BYTES, clock, media_root)

    def verify_url(self, request: CallbackRequest) -> bytes:
        """See Channel.verify_url."""
        return crypto.verify_url(self._account, request)

    def open(self, request: CallbackRequest) -> Opened:
        """See Channel.open."""
        return crypto.open_callback(self._account, request)

    def normalize(self, payload: bytes, *, is_json: bool, received_at_ms: int, check_recipient: bool = True) -> InboundMessage:
        """See Channel.normalize."""
        return inbound.normalize(
            payload,
            self._account,
            self.tenant_id,
            is_json=is_json,
            received_at_ms=received_at_ms,
            check_recipient=check_recipient,
        )

    def ack(self) -> bytes:
        """See Channel.ack."""
        return passive.ACK

    def can_passive(self, part: Part) -> bool:
        """See Channel.can_passive."""
        return passive.can_passive(part)

    def seal(self, part: Part, message: InboundMessage, opened: Opened) -> tuple[bytes, str]:
        """See Channel.seal."""
        return passive.seal(self._account, part, message, opened, now_ms=self._clock.now_ms())

    def render(self, reply: Reply) -> list[Part]:
        """See Channel.render."""
        return outbound.render(self._account, reply, max_parts=self._max_parts)

    def degrade(self, part: Part) -> Part | None:
        """The simpler form of a part the platform refused, or None."""
        return outbound.degrade(part)

    def send_handle(self, kind: str) -> bool:
        """Only a template message has a handle (client_msg_id, 10 minutes); customer-service messages have none (N-05)."""
        return kind == "template"

    async def freeze(self, part: Part, target: Target, *, duplicate_check: bool, key: str) -> bytes:
        """See Channel.freeze. There is no duplicate check here; a template's client_msg_id comes from ``key``."""
        del duplicate_check
        outbound.request(part, target, key=key)  # refuses a wrong receiver before anything is uploaded
        return json_bytes(outbound.request(await self.media.with_media_id(part), target, key=key))

    async def send(self, kind: str, body: bytes, *, target: Target) -> SendOutcome:
        """See Channel.send."""
        del target
        sent = await (self.client.send_template(body) if kind == "template" else self.client.send_custom(body))
        if stale_media("mp", sent.errcode):
            self.media.forget_sent(body)
        return sent

    async def probe(self) -> Literal["push", "pull", "unknown"]:
        """See Channel.probe: the typing hint to nobody; 48001 means that customer-service messages are not for this account."""
        answer = await within(2.0, self.client.typing(_NOBODY))
        if answer is None or answer.transport != "answered" or answer.context == "token" or answer.errcode is None:
            return "unknown"
        if answer.errcode in _NO_PUSH:
            return "pull"
        return "unknown" if answer.errcode < 0 or answer.errcode in (45009, 45011) else "push"
