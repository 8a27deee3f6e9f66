"""What decrypted payloads normalize to, without a running service: the engine of ``yizhan inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.protocol import InboundMessage
from config.schema import MpAccount, WecomAccount
from gateway import wire, xml
from gateway.channel import CallbackRejected
from gateway.mp import inbound as mp_inbound
from gateway.payload import looks_like_json
from gateway.wecom import inbound as wecom_inbound


def inspect_file(account: WecomAccount | MpAccount, tenant_id: str, path: Path, *, received_at_ms: int) -> dict[str, Any]:
    """The normalized message of one payload file, or ``error`` (a code) and ``message``; never raises for a file.

    ``.xml`` and ``.json`` names decide the format, otherwise the first character does. No recipient checks.
    """
    try:
        with path.open("rb") as file:
            payload = file.read(xml.MAX_BYTES + 1)
    except OSError as error:
        return {"file": str(path), "error": "unreadable", "message": error.strerror or type(error).__name__}
    suffix = path.suffix.lower()
    is_json = suffix == ".json" or (suffix != ".xml" and looks_like_json(payload))
    try:
        message = normalize(account, tenant_id, payload, is_json=is_json, received_at_ms=received_at_ms)
    except CallbackRejected as error:
        return {"file": str(path), "error": error.code, "message": error.hint or str(error)}
    return {"file": str(path), **wire.to_json(message, with_fields=True), "subject_kind": message.subject_kind}


def normalize(
    account: WecomAccount | MpAccount, tenant_id: str, payload: bytes, *, is_json: bool, received_at_ms: int
) -> InboundMessage:
    """The platform's own normalization, recipient unchecked. Raises CallbackRejected."""
    if isinstance(account, WecomAccount):
        return wecom_inbound.normalize(
            payload, account, tenant_id, is_json=is_json, received_at_ms=received_at_ms, check_recipient=False
        )
    return mp_inbound.normalize(
        payload, account, tenant_id, is_json=is_json, received_at_ms=received_at_ms, check_recipient=False
    )
