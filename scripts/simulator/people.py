"""Members and followers: who there is, what each has seen, and how much may still be sent to them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from config.demo import MP_MAIN_OPEN_ID, MP_SUB_OPEN_ID

from .accounts import SimAccount

INBOX_CAP = 5000
DEPARTMENTS: tuple[tuple[int, str, int], ...] = ((1, "驿站科技", 0), (2, "运维部", 1), (3, "产品部", 1), (4, "市场部", 1))
"""(id, name, parent id) of the simulated company."""

_MEMBERS: tuple[tuple[str, str, tuple[int, ...], tuple[str, ...], bool], ...] = (
    ("zhangsan", "张三", (2,), ("1",), True),
    ("lisi", "李四", (2,), ("1",), True),
    ("wangwu", "王五", (3,), (), True),
    ("zhangsan02", "张三", (3,), (), True),
    ("zhaoliu", "赵六", (4,), (), True),
    ("sunqi", "孙七", (4,), (), False),
)


@dataclass
class Person:
    """One member or follower of one account, with everything that account ever showed them."""

    account: str
    user: str
    name: str
    departments: tuple[int, ...] = (1,)
    tags: tuple[str, ...] = ()
    visible: bool = True
    """Inside the app's visible range (WeCom)."""
    following: bool = True
    """Subscribed (Official Account)."""
    inbox: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=INBOX_CAP))
    seen: int = 0
    sent_at_ms: deque[int] = field(default_factory=lambda: deque(maxlen=1001))
    """When messages were delivered by message/send, for the pace rules."""
    windows: list[list[int]] = field(default_factory=list)
    """Customer-service allowances: [until_ms, messages left], newest first."""
    active_at_ms: int = 0
    typing_until_ms: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def show(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Put one entry where this person sees it; returns it with its number ``n``."""
        self.seen += 1
        numbered = {"n": self.seen, **entry}
        self.inbox.append(numbered)
        self.typing_until_ms = 0
        self.arrived.set()
        self.arrived = asyncio.Event()
        return numbered

    def open_window(self, now_ms: int, valid_s: int, messages: int) -> None:
        """An act of this person allows ``messages`` customer-service messages for ``valid_s`` seconds (oa.cs.window)."""
        self.active_at_ms = now_ms
        self.windows = [window for window in self.windows if window[0] > now_ms and valid_s < 3600]
        self.windows.insert(0, [now_ms + valid_s * 1000, messages])

    def take_window(self, now_ms: int) -> int:
        """Use one customer-service message: 0 when allowed, else 45015 (no window) or 45047 (used up)."""
        live = [window for window in self.windows if window[0] > now_ms]
        if not live or not self.following:
            return 45015
        for window in live:
            if window[1] > 0:
                window[1] -= 1
                return 0
        return 45047

    def over_pace(self, now_ms: int) -> bool:
        """True when another message in this minute or hour would be dropped (wecom.send.member_rate)."""
        minute = sum(1 for at in self.sent_at_ms if at > now_ms - 60_000)
        hour = sum(1 for at in self.sent_at_ms if at > now_ms - 3_600_000)
        return minute >= 30 or hour >= 1000


class People:
    """Everybody, by (account, user); WeCom user ids compare case-insensitively."""

    def __init__(self, accounts: dict[str, SimAccount]) -> None:
        self._accounts = accounts
        self._people: dict[tuple[str, str], Person] = {}
        for account in accounts.values():
            self._populate(account)

    def find(self, account: str, user: str) -> Person | None:
        """The person, or None when the platform does not know them."""
        return self._people.get(self._key(account, user))

    def meet(self, account: str, user: str) -> Person:
        """The person; created as a member or follower when unknown."""
        person = self.find(account, user)
        return person or self.add(Person(account, user, user))

    def add(self, person: Person) -> Person:
        """Make a person known."""
        self._people[self._key(person.account, person.user)] = person
        return person

    def of(self, account: str) -> list[Person]:
        """Everybody of one account."""
        return [person for person in self._people.values() if person.account == account]

    def _key(self, account: str, user: str) -> tuple[str, str]:
        known = self._accounts.get(account)
        return account, user.lower() if known is not None and known.wecom else user

    def _populate(self, account: SimAccount) -> None:
        if account.wecom:
            for user, name, departments, tags, visible in _MEMBERS:
                self.add(Person(account.id, user, name, departments, tags, visible))
        elif account.verified:
            self.add(Person(account.id, MP_MAIN_OPEN_ID, "小林"))
        else:
            self.add(Person(account.id, MP_SUB_OPEN_ID, "阿青"))
