"""What delivery does to outbox rows: claim heads of line, freeze bytes, settle, sweep. Only SQL, only compare-and-set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)

from config.lease import TTL_MS, is_free
from config.lease import claim as lease_claim
from config.lease import now_ms as lease_now_ms
from gateway.outbox_states import LIVE, ROWS, Status, move, move_row

DUPLICATE_WINDOW_MS = 1_800_000
"""WeCom's duplicate_check_interval unless a request names another (wecom.send.duplicate_check)."""
_ORDERLY_ATTEMPTS = 5
"""A row that failed more often than this no longer makes later messages of the conversation wait."""
_SAME_BYTES_ROWS = 300
PER_ACCOUNT = 32
"""Attempts of one account at a time and process."""
_FREEZE = (
    update(ROWS)
    .where(ROWS.c.seq == bindparam("at"), ROWS.c.fence == bindparam("held"), ROWS.c.status == "sending")
    .values(request=bindparam("bytes"), duplicate_check=bindparam("check"), frozen_at_ms=bindparam("now"))
)
_RECENT = (
    select(ROWS.c.request)
    .where(
        ROWS.c.conversation_id == bindparam("line"),
        ROWS.c.status.in_(("sent", "unknown")),
        ROWS.c.seq != bindparam("me"),
        ROWS.c.frozen_at_ms > bindparam("since"),
    )
    .order_by(ROWS.c.seq.desc())
    .limit(_SAME_BYTES_ROWS)
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row in ``sending`` that this process holds under ``fence``. ``row`` is as it was read, before the claim."""

    row: Mapping[str, Any]
    fence: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a due row does not go now: where it moves instead."""

    after: Status
    values: Mapping[str, Any]
    with_group: bool = False
    """Whether the later parts of its group go the same way."""


Gate = Callable[[Connection, Mapping[str, Any]], Hold | None]


def _unblocked(now_ms: BindParameter[int]) -> ColumnElement[bool]:
    """Nothing earlier in this conversation is on its way (N-06: scheduled, parked and settled rows make nobody wait)."""
    earlier = ROWS.alias("earlier")
    arrived = or_(earlier.c.not_before_ms.is_(None), earlier.c.not_before_ms <= now_ms)
    counts = or_(earlier.c.group_id == ROWS.c.group_id, and_(earlier.c.attempts <= _ORDERLY_ATTEMPTS, arrived))
    same_line = and_(earlier.c.conversation_id == ROWS.c.conversation_id, earlier.c.status.in_(LIVE), earlier.c.seq < ROWS.c.seq)
    return ~exists(select(earlier.c.seq).where(same_line, counts))


def _next_account(kind: ColumnElement[bool]) -> Select[Any]:
    """The account after another one with pending rows of this kind: one step in the index, however many rows it has."""
    return select(func.min(ROWS.c.account_id)).where(_PENDING, kind, ROWS.c.account_id > bindparam("after"))


def _heads(kind: ColumnElement[bool]) -> Select[Any]:
    """The due heads of line of one account, oldest first."""
    now_ms = bindparam("now", type_=BigInteger)
    mine = and_(_PENDING, kind, ROWS.c.account_id == bindparam("account"), ROWS.c.next_attempt_at_ms <= now_ms)
    oldest = select(ROWS).where(mine, _unblocked(now_ms)).order_by(ROWS.c.next_attempt_at_ms).limit(bindparam("most"))
    return oldest.with_for_update(skip_locked=True)


_PENDING = ROWS.c.status == literal_column("'pending'")
_KINDS = tuple(
    (_next_account(kind), _heads(kind))
    for kind in (ROWS.c.cause != literal_column("'push'"), ROWS.c.cause == literal_column("'push'"))
)
"""Answers, then pushes. Written with literals: by them the partial indexes on what is due are found."""


def has_due(connection: Connection, now_ms: int) -> bool:
    """Whether any row is due; one index look-up."""
    query = select(ROWS.c.seq).where(ROWS.c.status == "pending", ROWS.c.next_attempt_at_ms <= now_ms).limit(1)
    return connection.execute(query).first() is not None


def due_heads(connection: Connection, now_ms: int, limit: int, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """The due heads of line, answers to people before pushes, oldest first, less those of the accounts ``without``.

    Account by account, so that the long list of one that is passed over is not walked for the others' sake.
    """
    found: list[dict[str, Any]] = []
    for next_account, heads in _KINDS:
        if len(found) >= limit:
            break
        rows: list[RowMapping] = []
        account: str | None = ""
        while account := connection.execute(next_account, {"after": account}).scalar():
            if account not in without:
                given = {"account": account, "now": now_ms, "most": limit - len(found)}
                rows += connection.execute(heads, given).mappings()
        rows.sort(key=itemgetter("next_attempt_at_ms"))
        found += [dict(row) for row in rows[: limit - len(found)]]
    return found


def claim(
    connection: Connection, owner: str, now_ms: int, limit: int, gate: Gate, busy: Mapping[str, int] | None = None
) -> tuple[list[Claimed], int]:
    """Claim up to ``limit`` due heads; the gate may hold rows back. Returns the claims and how many rows it moved away.

    ``busy`` tells how many attempts of each account run already: none gets more than ``PER_ACCOUNT``, so that a platform
    that answers slowly keeps only its own messages waiting.
    """
    claimed: list[Claimed] = []
    held, running = 0, Counter(busy or {})
    lease_until = lease_now_ms(connection) + TTL_MS
    passed_over = True
    while passed_over and len(claimed) < limit:
        passed_over = False
        full = [account for account, count in running.items() if count >= PER_ACCOUNT]
        for row in due_heads(connection, now_ms, limit - len(claimed), full):
            if running[row["account_id"]] >= PER_ACCOUNT:
                passed_over = True
                continue
            hold = gate(connection, row)
            if hold is not None:
                held += _hold(connection, row, hold)
            elif (taken := _take(connection, row, owner, lease_until)) is not None:
                claimed.append(taken)
                running[row["account_id"]] += 1
    return claimed, held


def _take(connection: Connection, row: dict[str, Any], owner: str, lease_until_ms: int) -> Claimed | None:
    fence = row["fence"] + 1
    values = {"lease_owner": owner, "lease_until_ms": lease_until_ms, "fence": fence, "attempts": row["attempts"] + 1}
    moved = move_row(connection, row["seq"], row["fence"], "pending", "sending", values)
    return Claimed(row, fence) if moved else None


def _hold(connection: Connection, row: Mapping[str, Any], hold: Hold) -> int:
    where = and_(ROWS.c.seq == row["seq"], ROWS.c.fence == row["fence"])
    if hold.after == "pending":
        statement = update(ROWS).where(where, ROWS.c.status == "pending").values(**hold.values)
        return connection.execute(statement).rowcount
    moved = move(connection, where, "pending", hold.after, hold.values)
    if moved and hold.with_group:
        moved += move(connection, later_parts(row), "pending", hold.after, hold.values)
    return moved


def later_parts(row: Mapping[str, Any]) -> ColumnElement[bool]:
    """The parts of the row's group that come after it."""
    return and_(ROWS.c.group_id == row["group_id"], ROWS.c.part > row["part"])


def renew(connection: Connection, owner: str, seqs: Sequence[int]) -> None:
    """Extend the leases of everything this process is sending."""
    mine = and_(ROWS.c.seq.in_(seqs), ROWS.c.status == "sending", ROWS.c.lease_owner == owner)
    connection.execute(update(ROWS).where(mine).values(lease_until_ms=lease_now_ms(connection) + TTL_MS))


def freeze(connection: Connection, claim: Claimed, request: bytes, *, duplicate_check: bool, now_ms: int) -> bool:
    """Store the request bytes before they are sent (N-04); False when the claim was lost."""
    given = {"at": claim.row["seq"], "held": claim.fence, "bytes": request, "check": duplicate_check, "now": now_ms}
    return connection.execute(_FREEZE, given).rowcount == 1


def still_held(connection: Connection, claim: Claimed) -> bool:
    """Extend the claim right before frozen bytes go out once more; False when it was taken over meanwhile (a paused process
    that wakes must not send beside its heir)."""
    mine = and_(ROWS.c.seq == claim.row["seq"], ROWS.c.fence == claim.fence, ROWS.c.status == "sending")
    return connection.execute(update(ROWS).where(mine).values(lease_until_ms=lease_now_ms(connection) + TTL_MS)).rowcount == 1


def same_bytes_before(connection: Connection, row: Mapping[str, Any], request: bytes, now_ms: int) -> bool:
    """Whether another message with these very bytes went to the conversation inside the duplicate-check window (DUP-09):
    with the check on, the platform would swallow this one."""
    where = {"line": row["conversation_id"], "me": row["seq"], "since": now_ms - DUPLICATE_WINDOW_MS}
    return any(stored == request for (stored,) in connection.execute(_RECENT, where))


def settle(connection: Connection, claim: Claimed, after: Status, values: Mapping[str, Any], *, with_group: bool = False) -> bool:
    """End an attempt (sending → after); False when the claim was lost and nothing is written."""
    if not move_row(connection, claim.row["seq"], claim.fence, "sending", after, values):
        return False
    if with_group and after in ("parked", "cancelled"):
        kept = {key: values[key] for key in ("park_reason", "next_attempt_at_ms") if key in values}
        move(connection, later_parts(claim.row), "pending", after, kept)
    return True


def put_back(connection: Connection, claim: Claimed, due_ms: int) -> bool:
    """Not now (pace): the row waits until ``due_ms`` as if it had not been claimed, and with it whatever is due behind it
    in its conversation, so that nobody looks at a long line again and again."""
    row = claim.row
    if not settle(connection, claim, "pending", {"next_attempt_at_ms": due_ms, "attempts": row["attempts"]}):
        return False
    behind = and_(ROWS.c.conversation_id == row["conversation_id"], ROWS.c.status == "pending", ROWS.c.seq > row["seq"])
    connection.execute(update(ROWS).where(behind, ROWS.c.next_attempt_at_ms < due_ms).values(next_attempt_at_ms=due_ms))
    return True


def repeat(connection: Connection, row: Mapping[str, Any], due_ms: int) -> bool:
    """An ``unknown`` that may be sent again: unknown → pending, counted."""
    values = {"repeats": row["repeats"] + 1, "next_attempt_at_ms": due_ms}
    return move(connection, ROWS.c.seq == row["seq"], "unknown", "pending", values) == 1


def adopt_orphans(connection: Connection, owner: str, limit: int) -> list[Claimed]:
    """Take the rows in ``sending`` whose process died (their lease is free) under a new fence, to judge them."""
    free = and_(ROWS.c.status == "sending", is_free(ROWS, lease_now_ms(connection)))
    adopted: list[Claimed] = []
    for row in connection.execute(select(ROWS).where(free).limit(limit)).mappings().all():
        fence = lease_claim(connection, ROWS, and_(ROWS.c.seq == row["seq"], free), owner)
        if fence is not None:
            adopted.append(Claimed(dict(row), fence))
    return adopted


def has_orphans(connection: Connection) -> bool:
    """Whether any lease of a ``sending`` row is free; that state holds few rows."""
    query = select(ROWS.c.seq).where(ROWS.c.status == "sending", is_free(ROWS, lease_now_ms(connection))).limit(1)
    return connection.execute(query).first() is not None


def pull_back(connection: Connection, now_ms: int) -> int:
    """Waiting rows that were made in the future, by this clock: somebody set it back since, or another machine's runs ahead.
    They are due now unless they were scheduled; otherwise people would wait until the clock is there again."""
    ahead = and_(ROWS.c.created_at_ms > now_ms, ROWS.c.next_attempt_at_ms > now_ms, ROWS.c.not_before_ms.is_(None))
    waiting = and_(ROWS.c.status == "pending", ahead)
    return connection.execute(update(ROWS).where(waiting).values(next_attempt_at_ms=now_ms)).rowcount


def expire_parked(connection: Connection, now_ms: int, limit: int = 500) -> int:
    """Parked rows past their time become ``expired``: a record that stays visible (N-06)."""
    due = and_(ROWS.c.status == "parked", ROWS.c.next_attempt_at_ms <= now_ms)
    seqs = [row[0] for row in connection.execute(select(ROWS.c.seq).where(due).limit(limit))]
    return move(connection, ROWS.c.seq.in_(seqs), "parked", "expired", {"next_attempt_at_ms": None}) if seqs else 0
