"""Where messages to people wait: storing drafts as rows, and the hand-over of an answer to the HTTP response (N-03)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from config.clock import Clock
from config.errors import NotFound
from config.ids import new_id
from config.lease import now_ms as lease_now_ms
from config.ports import Draft, LastOutgoing
from config.schema import Limits
from gateway import outbox_pull
from gateway.account_state import read_account
from gateway.channel import Channel, Part
from gateway.outbox_pull import PulledPart
from gateway.outbox_rows import Pages, hint_part, offer_more, pack, render_draft, unpack
from gateway.outbox_states import ROWS, move, move_row

_INSERTS = {
    name: dialect.insert(ROWS).on_conflict_do_nothing(index_elements=["idempotency_key"])
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}
"""Built once: building a statement costs more than running it."""
_GROUP_OF_KEY = select(ROWS.c.group_id).where(ROWS.c.idempotency_key == bindparam("key"))
_FIRST = select(
    ROWS.c.seq,
    ROWS.c.status,
    ROWS.c.via,
    ROWS.c.payload,
    ROWS.c.parts,
    ROWS.c.account_id,
    ROWS.c.conversation_id,
    ROWS.c.kind,
    ROWS.c.expires_at_ms,
    ROWS.c.park_reason,
    ROWS.c.platform_id,
).where(ROWS.c.group_id == bindparam("group"), ROWS.c.part == 0)
_PENDING = select(ROWS.c.seq).where(ROWS.c.conversation_id == bindparam("conversation"), ROWS.c.status == "pending").limit(1)
NO_ACCOUNT = "this account is not configured any more"
_DAY_MS = 86_400_000
_AFTER_PASSIVE_MS = 1_000
_LONGEST_RESERVE_MS = 24 * 3600 * 1000


class SqlOutbox:
    """The outbox (config.ports.Outbox). Every method joins the caller's transaction; ring the bell after its commit."""

    def __init__(self, channels: Mapping[str, Channel], clock: Clock, limits: Limits) -> None:
        self._channels = channels
        self._clock = clock
        self._limits = limits

    # put ------------------------------------------------------------------------------------------------------------
    def put(self, connection: Connection, draft: Draft) -> str:
        """See config.ports.Outbox.put. For an account that is not configured any more the row is ``dead`` at once: a record,
        and nothing that would stop whoever works through a list (reminders, actions left behind)."""
        channel = self._channels.get(draft.account_id)
        if channel is None:
            return self._put_dead(connection, draft)
        can_push = self.can_push(connection, draft.account_id, draft.kind)
        pages = _with_offers(channel, render_draft(channel, draft), can_push=can_push, max_parts=self._limits.max_parts)
        rows = self._rows(connection, draft, pages, new_id("g"), can_push=can_push)
        if not rows:
            return new_id("g")
        statement = _INSERTS[connection.dialect.name]
        if connection.execute(statement, rows[0]).rowcount != 1:
            return str(connection.execute(_GROUP_OF_KEY, {"key": rows[0]["idempotency_key"]}).scalar_one())
        if len(rows) > 1:
            connection.execute(statement, rows[1:])
        return str(rows[0]["group_id"])

    def _put_dead(self, connection: Connection, draft: Draft) -> str:
        row = _row_base(draft, new_id("g"), 0, 1, self._clock.now_ms())
        row |= {"kind": "text", "payload": pack(Part("text", {}, draft.text)), "status": "dead", "errmsg": NO_ACCOUNT}
        if connection.execute(_INSERTS[connection.dialect.name], row).rowcount == 1:
            return str(row["group_id"])
        return str(connection.execute(_GROUP_OF_KEY, {"key": row["idempotency_key"]}).scalar_one())

    def put_same(self, connection: Connection, drafts: Sequence[Draft], *, spacing_ms: float = 0.0) -> list[str]:
        """Store one content for many targets: rendered once, stored in one statement; returns a group id a draft.

        All drafts share account, kind, text and data. ``spacing_ms`` spreads when they become due, so that a long list
        does not stand before answers to people. Known keys keep their rows; the group ids are derived from the keys.
        """
        if not drafts:
            return []
        first = drafts[0]
        channel = self._channel(first.account_id)
        can_push = self.can_push(connection, first.account_id, first.kind)
        pages = _with_offers(channel, render_draft(channel, first), can_push=can_push, max_parts=self._limits.max_parts)
        groups, rows = [], []
        for index, draft in enumerate(drafts):
            groups.append("g" + hashlib.sha256(draft.idempotency_key.encode()).hexdigest()[:31])
            made = self._rows(connection, draft, pages, groups[-1], can_push=can_push)
            for row in made:
                if row["status"] == "pending":
                    row["next_attempt_at_ms"] += int(index * spacing_ms)
            rows += made
        if rows:
            connection.execute(_INSERTS[connection.dialect.name], rows)
        return groups

    def can_push(self, connection: Connection, account_id: str, kind: str = "text") -> bool:
        """Whether a message of this kind may be sent unasked: always on WeCom; on an Official Account when it may send
        customer-service messages, or for a template message."""
        channel = self._channels.get(account_id)
        if channel is None or channel.platform == "wecom" or kind == "template":
            return True  # without an account there is nobody to pull either: delivery ends the row
        return read_account(connection, account_id).capability == "push"

    def _rows(self, connection: Connection, draft: Draft, pages: Pages, group: str, *, can_push: bool) -> list[dict[str, Any]]:
        now = self._clock.now_ms()
        waits_behind = draft.reserve_ms > 0 and _is_on_its_way(connection, draft.conversation_id, now)
        due = max(now, draft.not_before_ms or 0)
        park_until = self.park_until(draft.expires_at_ms)
        rows: list[dict[str, Any]] = []
        for number, part in enumerate(pages.parts):
            row = _row_base(draft, group, number, len(pages.parts), now)
            row["payload"] = pack(part, pages.late_first if number == 0 else None)
            row["kind"] = part.kind
            if part.page > 0:
                row |= {"status": "parked", "park_reason": "more", "next_attempt_at_ms": park_until}
            elif number == 0 and draft.reserve_ms > 0 and not waits_behind:
                until = lease_now_ms(connection) + draft.reserve_ms
                row |= {"status": "passive_reserved", "reserved_until_ms": until, "next_attempt_at_ms": due}
            elif not can_push:
                row |= {"status": "parked", "park_reason": "pull", "next_attempt_at_ms": park_until}
            else:
                row |= {"status": "pending", "next_attempt_at_ms": due}
            rows.append(row)
        return rows

    def park_until(self, expires_at_ms: int | None = None) -> int:
        """Until when a row that is parked now is kept: limits.park_days, or its own expiry."""
        end = self._clock.now_ms() + int(self._limits.park_days * _DAY_MS)
        return end if expires_at_ms is None else min(end, expires_at_ms)

    def give_up_at(self, created_at_ms: int) -> int:
        """Until when a failing message is tried again."""
        return created_at_ms + int(self._limits.park_days * _DAY_MS)

    # passive --------------------------------------------------------------------------------------------------------
    def take_passive(self, connection: Connection, group_id: str, *, taker: int | None = None) -> Part | None:
        """The first part, now ours to put into the HTTP response (passive_reserved → sent), or None when the race is lost.

        Where the account cannot push, an answer that was parked meanwhile is taken the same way by a later delivery of
        its message. ``taker`` is the inbound row it answers. A part that cannot travel passively is released to delivery
        instead, and None is returned.
        """
        row = self._first(connection, group_id)
        if row is None or not (row["status"] == "passive_reserved" or _waits_for_pull(row)):
            return None
        part = unpack(row["payload"])
        if part is None or not self._channel(row["account_id"]).can_passive(part):
            self.release_passive(connection, group_id)
            return None
        now = self._clock.now_ms()
        values = {
            "via": "passive",
            "sent_at_ms": now,
            "next_attempt_at_ms": None,
            "park_reason": None,
            "platform_id": None if taker is None else f"inbound:{taker}",
        }
        if not move_row(connection, row["seq"], None, row["status"], "sent", values):
            return None
        if row["parts"] > 1:  # the HTTP response needs a moment to arrive; the other parts must not overtake it (FMT-12)
            due = now + _AFTER_PASSIVE_MS
            rest = and_(ROWS.c.group_id == group_id, ROWS.c.status == "pending", ROWS.c.next_attempt_at_ms < due)
            connection.execute(ROWS.update().where(rest).values(next_attempt_at_ms=due))
        return part

    def give_again(self, connection: Connection, group_id: str, *, taker: int | None = None) -> Part | None:
        """For a redelivery: the passive part once more, or None when the answer went or goes another way, or was given
        to another message it answers (joined fragments share one answer)."""
        row = self._first(connection, group_id)
        if row is None or row["via"] != "passive":
            return None
        if taker is not None and row["platform_id"] not in (None, f"inbound:{taker}"):
            return None
        return unpack(row["payload"])

    def release_passive(self, connection: Connection, group_id: str) -> None:
        """Nobody waits for the passive part any more: it goes by push, or waits to be pulled."""
        row = self._first(connection, group_id)
        if row is None or row["status"] != "passive_reserved":
            return
        if self.can_push(connection, row["account_id"], row["kind"]):
            move_row(connection, row["seq"], None, "passive_reserved", "pending")
            return
        values = {"park_reason": "pull", "next_attempt_at_ms": self.park_until(row["expires_at_ms"])}
        move_row(connection, row["seq"], None, "passive_reserved", "parked", values)

    def release_all(self, connection: Connection, groups: Sequence[str]) -> None:
        """``release_passive`` for several groups."""
        for group in groups:
            self.release_passive(connection, group)

    def has_pending(self, connection: Connection, conversation_id: str) -> bool:
        """Whether anything of this conversation is to be pushed; what stands before it may just have gone."""
        return connection.execute(_PENDING, {"conversation": conversation_id}).first() is not None

    def expired_reservations(self, connection: Connection, limit: int) -> list[str]:
        """Groups whose passive reservation has run out; whoever finds them calls release_passive."""
        now = lease_now_ms(connection)
        ended = or_(ROWS.c.reserved_until_ms <= now, ROWS.c.reserved_until_ms > now + _LONGEST_RESERVE_MS)
        query = select(ROWS.c.group_id).where(ROWS.c.status == "passive_reserved", ended).limit(limit)
        return [str(row[0]) for row in connection.execute(query)]

    # pull -----------------------------------------------------------------------------------------------------------
    def pull(self, connection: Connection, conversation_id: str) -> PulledPart | None:
        """The next parked answer or page for 继续, labelled with its question; None when nothing waits (parked → sent)."""
        return outbox_pull.pull(connection, self._channels, conversation_id, self._clock.now_ms(), self.can_push)

    def pulled_again(self, connection: Connection, key: str) -> Part | None:
        """For a redelivery of a 继续: the part that ``PulledPart.key`` names, if it went that way."""
        return outbox_pull.pulled_again(connection, key)

    def parked_count(self, connection: Connection, conversation_id: str) -> int:
        """See config.ports.Outbox.parked_count."""
        return outbox_pull.parked_count(connection, conversation_id)

    def flush_parked(self, connection: Connection, conversation_id: str, limit: int = outbox_pull.FLUSH_LIMIT) -> int:
        """The person just wrote: let at most ``limit`` parked answers go now; returns how many do (N-06)."""
        return outbox_pull.flush_parked(connection, conversation_id, limit, self._clock.now_ms(), self.can_push)

    # prompts --------------------------------------------------------------------------------------------------------
    def cancel_action_prompt(self, connection: Connection, action_id: str) -> int:
        """See config.ports.Outbox.cancel_action_prompt."""
        where = ROWS.c.action_id == action_id
        return sum(move(connection, where, state, "cancelled") for state in ("passive_reserved", "pending", "parked"))

    def newest(self, connection: Connection, conversation_id: str) -> LastOutgoing | None:
        """See config.ports.Outbox.newest: by the time it went out; one that may or may not have arrived is not delivered."""
        here = and_(ROWS.c.conversation_id == conversation_id, ROWS.c.kind != "card_update")
        sent = connection.execute(
            select(ROWS.c.action_id, ROWS.c.sent_at_ms)
            .where(here, ROWS.c.sent_at_ms.is_not(None))
            .order_by(ROWS.c.sent_at_ms.desc(), ROWS.c.seq.desc())
            .limit(1)
        ).first()
        doubtful = connection.execute(
            select(ROWS.c.action_id, ROWS.c.frozen_at_ms)
            .where(here, ROWS.c.status.in_(("sending", "unknown")), ROWS.c.frozen_at_ms.is_not(None))
            .order_by(ROWS.c.frozen_at_ms.desc())
            .limit(1)
        ).first()
        if doubtful is not None and (sent is None or doubtful[1] >= sent[1]):
            return LastOutgoing(action_id=doubtful[0], delivered=False, sent_at_ms=doubtful[1])
        return None if sent is None else LastOutgoing(action_id=sent[0], delivered=True, sent_at_ms=sent[1])

    def delivered(
        self, connection: Connection, action_id: str, *, after_ms: int | None = None, until_ms: int | None = None
    ) -> bool:
        """See config.ports.Outbox.delivered."""
        arrived, last = func.sum(case((ROWS.c.status == "sent", 1), else_=0)), func.max(ROWS.c.sent_at_ms)
        whole = select(ROWS.c.group_id).where(ROWS.c.action_id == action_id).group_by(ROWS.c.group_id)
        whole = whole.having(arrived == func.count())
        if after_ms is not None:
            whole = whole.having(last > after_ms)
        if until_ms is not None:
            whole = whole.having(last <= until_ms)
        return connection.execute(whole.limit(1)).first() is not None

    def undeliverable_prompts(self, connection: Connection, since_ms: int, limit: int) -> list[str]:
        """Actions whose prompt was given up since then, and none of whose showings has reached the person or still may (N-15)."""
        mine = ROWS.alias()
        arrived = select(mine.c.seq).where(
            mine.c.action_id == ROWS.c.action_id, mine.c.status.not_in(("dead", "expired", "cancelled"))
        )
        query = (
            select(ROWS.c.action_id)
            .where(ROWS.c.action_id.is_not(None), ROWS.c.status.in_(("dead", "expired")), ROWS.c.created_at_ms >= since_ms)
            .where(~arrived.exists())
        )
        return [str(row[0]) for row in connection.execute(query.distinct().limit(limit))]

    # inside ---------------------------------------------------------------------------------------------------------
    def _first(self, connection: Connection, group_id: str) -> Mapping[str, Any] | None:
        row = connection.execute(_FIRST, {"group": group_id}).mappings().first()
        return None if row is None else dict(row)

    def _channel(self, account_id: str) -> Channel:
        try:
            return self._channels[account_id]
        except KeyError:
            raise NotFound(f"no account {account_id} is configured", code="unknown_account") from None


_ON_ITS_WAY = (
    select(ROWS.c.seq)
    .where(ROWS.c.conversation_id == bindparam("line"), ROWS.c.final.is_(True))
    .where(
        or_(
            ROWS.c.status == "sending",
            and_(ROWS.c.status == "pending", ROWS.c.attempts == 0, ROWS.c.next_attempt_at_ms <= bindparam("now")),
        )
    )
    .limit(1)
)


def _is_on_its_way(connection: Connection, conversation_id: str, now_ms: int) -> bool:
    """Whether an earlier answer is being pushed this very moment: the next one must not overtake it in an HTTP response."""
    return connection.execute(_ON_ITS_WAY, {"line": conversation_id, "now": now_ms}).first() is not None


def _waits_for_pull(row: Mapping[str, Any]) -> bool:
    return bool(row["status"] == "parked" and row["park_reason"] == "pull")


def _with_offers(channel: Channel, pages: Pages, *, can_push: bool, max_parts: int) -> Pages:
    """Move what is too much to later pages and say how to get it: beyond ``max_parts``, or beyond one without push."""
    parts = list(pages.parts)
    now_count = sum(part.page == 0 for part in parts)
    room = max_parts if can_push else 1
    if now_count <= room or (can_push and now_count == max_parts + 1):  # one left over is not worth a page (FMT-08)
        return pages
    if not can_push:  # a pulled page is told how many wait behind it by whoever hands it over
        return Pages((offer_more(channel, parts[0]) or parts[0], *parts[1:]), pages.late_first)
    keep = max(1, room - 1)
    first, rest = parts[:keep], parts[keep:]
    later = (Part(part.kind, part.payload, part.text, page=1 + index // room) for index, part in enumerate(rest))
    return Pages((*first, hint_part(channel), *later), pages.late_first)


def _row_base(draft: Draft, group: str, number: int, count: int, now: int) -> dict[str, Any]:
    return {
        "idempotency_key": f"{draft.idempotency_key}:{number}",
        "tenant_id": draft.tenant_id,
        "account_id": draft.account_id,
        "conversation_id": draft.conversation_id,
        "user_id": draft.user_id,
        "session_id": draft.session_id,
        "cause": draft.cause,
        "cause_id": draft.cause_id,
        "group_id": group,
        "part": number,
        "parts": count,
        "final": draft.final,
        "target": None if draft.target is None else dict(draft.target),
        "label": draft.label,
        "action_id": draft.action_id,
        "attempts": 0,
        "repeats": 0,
        "duplicate_check": False,
        "fence": 0,
        "park_reason": None,
        "reserved_until_ms": None,
        "next_attempt_at_ms": None,
        "not_before_ms": draft.not_before_ms,
        "expires_at_ms": draft.expires_at_ms,
        "created_at_ms": now,
    }
