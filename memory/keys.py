"""Keys of subjects and conversations: derived, so that every process names the same row without asking."""

from __future__ import annotations

import hashlib


def conversation_id(tenant_id: str, account_id: str, chat_type: str, peer_id: str) -> str:
    """The permanent id of a conversation: ``c`` and 31 hex digits of the four parts that make it."""
    return "c" + _digest(tenant_id, account_id, chat_type, peer_id)


def identity_id(tenant_id: str, account_id: str, id_type: str, external_id: str) -> str:
    """The id of one identity row."""
    return "i" + _digest(tenant_id, account_id, id_type, external_id)


def person_key(id_type: str, user_id: str) -> str:
    """One spelling of a person's id, for comparing: WeCom does not tell upper from lower case, open_ids do (gateway §2)."""
    return user_id if id_type == "open_id" else user_id.lower()


def _digest(*parts: str) -> str:
    framed = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(framed.encode()).hexdigest()[:31]
