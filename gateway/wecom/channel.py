"""One WeCom self-built app as a Channel."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from agent.protocol import InboundMessage, Platform, Reply
from config.clock import Clock
from config.errors import Refused
from config.schema import MpAccount, Tenant, WecomAccount
from gateway.channel import ALERT_ROBOT, CallbackRequest, Opened, Part, SendOutcome, Target
from gateway.errors import PlatformError, stale_media
from gateway.outgoing_media import MediaUploads
from gateway.probing import within
from gateway.wecom import crypto, inbound, outbound, passive
from gateway.wecom.client import WecomClient, outcome

_ROBOT_IMAGE_BYTES = 2_097_152


class WecomChannel:
    """Implements gateway.channel.Channel for one account. ``media_root``: only files below it are sent (None = any)."""

    platform: Platform = "wecom"

    def __init__(
        self,
        account: WecomAccount,
        tenant: Tenant,
        client: WecomClient,
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
        self._robots = {robot.id: robot.webhook.get_secret_value() for robot in tenant.tools.robots}
        if tenant.alert_webhook is not None:
            self._robots[ALERT_ROBOT] = tenant.alert_webhook.get_secret_value()
        self.media = MediaUploads("wecom", client.upload_media, outbound.MEDIA_LIMITS_BYTES, clock, media_root)

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
        """The duplicate check covers every kind of message/send; a card update's response_code works once."""
        del kind
        return True

    async def freeze(self, part: Part, target: Target, *, duplicate_check: bool, key: str) -> bytes:
        """See Channel.freeze."""
        if target.webhook is not None:
            return await self._freeze_for_robot(part, self._robot(target.webhook))
        for user in target.users:
            outbound.check_user(user)  # before anything is uploaded
        ready = await self.media.with_media_id(part)
        return outbound.freeze_bytes(outbound.request(self._account, ready, target, duplicate_check=duplicate_check, key=key))

    async def send(self, kind: str, body: bytes, *, target: Target) -> SendOutcome:
        """See Channel.send. A repeat that the platform does not recognize by itself is the caller's decision."""
        if target.webhook is not None:
            return await self.client.webhook_send(self._robot(target.webhook), body)
        sent = await (self.client.update_card(body) if kind == "card_update" else self.client.send_message(body))
        if stale_media("wecom", sent.errcode):
            self.media.forget_sent(body)
        return sent

    async def probe(self) -> Literal["push", "pull", "unknown"]:
        """See Channel.probe: a WeCom app may push once it can be read from here."""
        answer = await within(2.0, self.client.get_agent())
        return "push" if answer is not None and answer.ok else "unknown"

    def _robot(self, name: str) -> str:
        try:
            return self._robots[name]
        except KeyError:
            raise Refused(f"no group robot {name[:40]} is configured for this tenant", code="unknown_robot") from None

    async def _freeze_for_robot(self, part: Part, url: str) -> bytes:
        body = part.payload.get(part.kind)
        path = body.get("path") if isinstance(body, Mapping) else None
        if path and part.kind in ("image", "file", "voice"):
            content = await self.media.content(part.kind, str(path))
            if part.kind == "image" and len(content) <= _ROBOT_IMAGE_BYTES:
                digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
                image = {"base64": base64.b64encode(content).decode(), "md5": digest}
                return outbound.freeze_bytes({"msgtype": "image", "image": image})
            kind = "voice" if part.kind == "voice" else "file"
            name = str((body or {}).get("file_name") or Path(str(path)).name)
            answer = await self.client.webhook_upload(url, name, content, kind)
            if not answer.ok:
                told = outcome(answer)
                raise PlatformError(
                    "the robot's upload failed",
                    platform="wecom",
                    errcode=told.errcode,
                    errmsg=told.errmsg,
                    transport="not_sent" if told.transport != "answered" else "answered",
                    context="webhook",
                )
            return outbound.freeze_bytes({"msgtype": kind, kind: {"media_id": str(answer.data.get("media_id") or "")}})
        return outbound.freeze_bytes(outbound.webhook_request(part))
