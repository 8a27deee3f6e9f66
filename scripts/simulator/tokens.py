"""access_token as both platforms hand it out: lifetimes, overlap, daily quotas, revocation."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from .accounts import SimAccount

LIFE_MS = 7_200_000
OVERLAP_MS = 300_000
FORCE_GAP_MS = 30_000
DAY_MS = 86_400_000
DAILY_TOKEN_CALLS = 2000
DAILY_FORCED = 20
CLEARS_A_MONTH = 10


@dataclass
class Issued:
    """One access_token. ``dead`` is the errcode it is refused with, 0 while it is good."""

    value: str
    account: str
    store: str
    expires_ms: int
    dead: int = 0


class TokenError(Exception):
    """The token endpoint refuses; ``errcode`` says why."""

    def __init__(self, errcode: int) -> None:
        super().__init__(str(errcode))
        self.errcode = errcode


class Tokens:
    """Every token ever issued, by value, and the newest of each account and store."""

    def __init__(self, now_ms: Callable[[], int], instant: Callable[[str], bool]) -> None:
        self._now_ms = now_ms
        self._instant = instant
        """True while the account's new tokens kill the old ones without overlap."""
        self._issued: dict[str, Issued] = {}
        self._current: dict[tuple[str, str], Issued] = {}
        self._previous: dict[tuple[str, str], Issued] = {}
        self._spent: dict[tuple[str, str, int], int] = {}
        self._forced_at_ms: dict[str, int] = {}
        self._cleared_ms: dict[str, list[int]] = {}
        self.fetches: dict[str, int] = {}

    def gettoken(self, account: SimAccount) -> tuple[str, int]:
        """WeCom: the same token while it is valid, with its remaining life in seconds (token.wecom)."""
        self._count(account.id)
        current = self._current.get((account.id, "corp"))
        if current is None or self._refusal(current):
            current = self._issue(account, "corp")
        return current.value, self._left_s(current)

    def plain(self, account: SimAccount) -> tuple[str, int]:
        """/cgi-bin/token: a new token each call, the one before good for 300 s, 2000 a day (token.oa)."""
        self._count(account.id)
        self._spend(account.id, "plain", DAILY_TOKEN_CALLS)
        self._retire((account.id, "plain"))
        return self._issue(account, "plain").value, LIFE_MS // 1000

    def stable(self, account: SimAccount, force: bool) -> tuple[str, int]:
        """/cgi-bin/stable_token: the same token until 300 s before expiry; ``force`` kills the old one at once."""
        self._count(account.id)
        slot = (account.id, "stable")
        current = self._current.get(slot)
        now = self._now_ms()
        if force:
            recent = now - self._forced_at_ms.get(account.id, -FORCE_GAP_MS) < FORCE_GAP_MS
            if current is None or not recent or self._refusal(current):
                self._spend(account.id, "forced", DAILY_FORCED)
                self._forced_at_ms[account.id] = now
                if current is not None:
                    current.dead = 40001
                current = self._issue(account, "stable")
        elif current is None or self._refusal(current) or current.expires_ms - now <= OVERLAP_MS:
            self._retire(slot)
            current = self._issue(account, "stable")
        return current.value, self._left_s(current)

    def clear_quota(self, account: str) -> bool:
        """Set the account's daily counters back; False after ten times in 30 days (oa.clear_quota)."""
        now = self._now_ms()
        recent = [at for at in self._cleared_ms.get(account, []) if at > now - 30 * DAY_MS]
        if len(recent) >= CLEARS_A_MONTH:
            return False
        self._cleared_ms[account] = [*recent, now]
        self._spent = {key: count for key, count in self._spent.items() if key[0] != account}
        return True

    def check(self, value: str | None) -> tuple[Issued | None, int]:
        """The token behind a value and 0, or the errcode it is refused with (41001, 40014, 40001, 42001)."""
        if not value:
            return None, 41001
        issued = self._issued.get(value)
        if issued is None:
            return None, 40014
        return issued, self._refusal(issued)

    def kill(self, account: str | None, errcode: int | None, wecom: Callable[[str], bool]) -> int:
        """Refuse every live token of the account (None: of all); errcode None = 40014 or 40001. Returns how many."""
        live = [issued for issued in self._issued.values() if account in (None, issued.account) and not self._refusal(issued)]
        for issued in live:
            issued.dead = errcode or (40014 if wecom(issued.account) else 40001)
        return len(live)

    def _issue(self, account: SimAccount, store: str) -> Issued:
        value = f"sim-{account.platform}-{store}-{secrets.token_urlsafe(48)}"
        issued = Issued(value, account.id, store, self._now_ms() + LIFE_MS)
        self._issued[value] = issued
        self._current[(account.id, store)] = issued
        return issued

    def _retire(self, slot: tuple[str, str]) -> None:
        current, older = self._current.get(slot), self._previous.get(slot)
        if older is not None:
            older.dead = older.dead or 40001
        if current is None:
            return
        self._previous[slot] = current
        if self._instant(slot[0]):
            current.dead = current.dead or 40001
        else:
            current.expires_ms = min(current.expires_ms, self._now_ms() + OVERLAP_MS)

    def _refusal(self, issued: Issued) -> int:
        if issued.dead:
            return issued.dead
        if issued.expires_ms > self._now_ms():
            return 0
        superseded = self._previous.get((issued.account, issued.store)) is issued
        return 40001 if superseded else 42001

    def _left_s(self, issued: Issued) -> int:
        return max(1, (issued.expires_ms - self._now_ms()) // 1000)

    def _count(self, account: str) -> None:
        self.fetches[account] = self.fetches.get(account, 0) + 1

    def _spend(self, account: str, what: str, limit: int) -> None:
        key = (account, what, self._now_ms() // DAY_MS)
        self._spent[key] = self._spent.get(key, 0) + 1
        if self._spent[key] > limit:
            raise TokenError(45009)
