"""WeChat Official Accounts (公众号) as a channel; see README.md here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.mp.channel import MpChannel

__all__ = ["MpChannel"]


def __getattr__(name: str) -> Any:
    """Import the channel when it is asked for, so that a single module of this package stays cheap to import."""
    if name == "MpChannel":
        from gateway.mp.channel import MpChannel

        return MpChannel
    raise AttributeError(name)
