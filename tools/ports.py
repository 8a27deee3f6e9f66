"""What the tools need from the platform floor: the company directory and the approval application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Member:
    """A colleague inside the app's visible range."""

    user_id: str
    name: str
    department: str = ""


class Platform(Protocol):
    """Calls to the account's platform. Every method raises YizhanError when the platform says no or cannot be reached."""

    async def member(self, account_id: str, user_id: str) -> Member | None:
        """The member with this exact id, or None (WeCom user/get)."""
        ...

    async def members_named(self, account_id: str, name: str) -> Sequence[Member]:
        """Members with this exact name inside the visible range (WeCom user/simplelist)."""
        ...

    async def submit_approval(self, account_id: str, application: Mapping[str, Any]) -> str:
        """Submit an application (WeCom oa/applyevent); returns its sp_no. ``application`` holds template_id, creator, title
        and fields in order."""
        ...


class NoPlatform:
    """For accounts without directory and approvals: nobody is found, nothing can be submitted."""

    async def member(self, account_id: str, user_id: str) -> Member | None:
        """See Platform.member."""
        return None

    async def members_named(self, account_id: str, name: str) -> Sequence[Member]:
        """See Platform.members_named."""
        return ()

    async def submit_approval(self, account_id: str, application: Mapping[str, Any]) -> str:
        """See Platform.submit_approval."""
        from tools import texts
        from tools.base import ToolRefused

        raise ToolRefused("no approvals on this platform", user_text=texts.APPROVAL_UNAVAILABLE)
