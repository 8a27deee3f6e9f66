"""WeCom self-built apps (企业微信自建应用) as a channel; see README.md here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.wecom.channel import WecomChannel

__all__ = ["WecomChannel"]


def __getattr__(name: str) -> Any:
    """Import the channel when it is asked for, so that a single module of this package stays cheap to import."""
    if name == "WecomChannel":
        from gateway.wecom.channel import WecomChannel

        return WecomChannel
    raise AttributeError(name)
