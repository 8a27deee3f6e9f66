"""Everything the simulated platforms know, in one place, and how a person gets to see something."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .accounts import SimAccount
from .faults import Fault, Faults
from .people import People, Person
from .timekeeper import Timekeeper
from .tokens import Tokens
from .wirelog import WireLog

GROUP = "group"
"""The pseudo account whose "users" are group robots' keys."""


@dataclass
class Card:
    """One interactive card on one person's screen. ``response_code`` is single use and good for 72 h."""

    account: str
    user: str
    task_id: str
    entry: dict[str, Any]
    response_code: str
    response_until_ms: int
    response_used: bool = False


@dataclass
class World:
    """The state of both platforms. ``callback_timeout_s`` is 5.0 on the real ones."""

    accounts: dict[str, SimAccount]
    clock: Timekeeper
    start_token: str = ""
    demo_dir: Path | None = None
    callback_timeout_s: float = 5.0
    log: WireLog = field(default_factory=WireLog)
    faults: Faults = field(default_factory=Faults)
    cards: dict[tuple[str, str, str], Card] = field(default_factory=dict)
    response_codes: dict[str, list[Card]] = field(default_factory=dict)
    task_ids: set[tuple[str, str]] = field(default_factory=set)
    sent_requests: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """(account, digest of a request with duplicate check) → (until_ms, msgid)."""
    menus: dict[str, dict[str, Any]] = field(default_factory=dict)
    media: dict[str, dict[str, Any]] = field(default_factory=dict)
    approvals: list[dict[str, Any]] = field(default_factory=list)
    work_orders: list[dict[str, Any]] = field(default_factory=list)
    webhook_sent_ms: dict[str, list[int]] = field(default_factory=dict)
    client_msg_ids: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tokens = Tokens(self.clock.now_ms, lambda account: self.faults.active("token_invalid_now", account))
        self._message_ids = itertools.count(7_000_000_000_000_000_000 + secrets.randbelow(10**15) * 1000)
        self._numbers = itertools.count(200_000_000 + secrets.randbelow(10**6))
        self._populate()

    def _populate(self) -> None:
        self.people = People(self.accounts)
        self.menus.update({a.id: dict(a.menu) for a in self.accounts.values() if a.menu is not None})

    def next_message_id(self) -> str:
        """A new 64-bit MsgId."""
        return str(next(self._message_ids))

    def next_number(self) -> int:
        """A new numeric id for template messages and approvals."""
        return next(self._numbers)

    def person(self, account: str, user: str) -> Person:
        """The person; created when unknown."""
        return self.people.meet(account, user)

    def show(self, person: Person, via: str, kind: str, text: str, card: Any = None, **extra: Any) -> dict[str, Any]:
        """Deliver something to a person's screen and to the chat page; returns the inbox entry."""
        entry = person.show({"via": via, "kind": kind, "text": text, "card": card, "at": self.clock.now_ms(), **extra})
        self.log.add_feed({"account": person.account, "user": person.user, "who": "them", "entry": entry})
        return entry

    def add_card(self, person: Person, entry: dict[str, Any], task_id: str, response_code: str) -> None:
        """Remember an interactive card so that it can be clicked and updated."""
        until = self.clock.now_ms() + 259_200_000
        card = Card(person.account, person.user, task_id, entry, response_code, until)
        self.cards[(person.account, person.user.lower(), task_id)] = card
        self.response_codes.setdefault(response_code, []).append(card)

    def card(self, account: str, user: str, task_id: str) -> Card | None:
        """The card this person sees under this task_id."""
        return self.cards.get((account, user.lower(), task_id))

    def changed(self, card: Card) -> None:
        """Tell the chat page that a card looks different now."""
        self.log.publish("card", {"account": card.account, "user": card.user, "entry": card.entry})

    def apply_fault(self, fault: Fault) -> None:
        """The part of a fault that acts when it is switched on."""
        if fault.name in ("token_revoked", "token_invalid_now"):
            self.tokens.kill(fault.account, None, lambda account: self.accounts[account].wecom)
        elif fault.name == "token_expired":
            self.tokens.kill(fault.account, 42001, lambda account: self.accounts[account].wecom)

    def reset(self) -> None:
        """Forget everything but accounts, their access tokens, and time."""
        self.log.clear()
        self.faults.clear()
        for store in (self.cards, self.response_codes, self.task_ids, self.sent_requests, self.menus, self.media):
            store.clear()
        for more in (self.approvals, self.work_orders, self.webhook_sent_ms, self.client_msg_ids):
            more.clear()
        self._populate()
        self.log.publish("reset", {})
