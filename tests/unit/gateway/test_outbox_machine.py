"""Any order of hand-overs, claims, outcomes, deaths and flushes: a row's way is set once and nothing goes out twice (N-03)."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Connection, create_engine, select
from sqlalchemy.pool import StaticPool
from sqlmodel import SQLModel

from config.clock import FixedClock
from config.columns import table_of
from config.ports import Draft
from config.schema import Limits
from gateway import outbox_claims
from gateway.account_state import record_capability
from gateway.delivery_gate import SendGate
from gateway.models import AccountState, Inbound, Job, OutboxMessage
from gateway.outbox import SqlOutbox
from gateway.outbox_claims import Claimed
from gateway.outbox_states import MOVES, ROWS
from memory.models import Conversation
from tests.fakes.channel import FakeChannel, mp_account

WHERE = "c1"
TABLES = [table_of(model) for model in (OutboxMessage, AccountState, Inbound, Job, Conversation)]


class OutboxMachine(RuleBasedStateMachine):
    """One conversation of an account that may or may not push; two processes that claim; requests that may be lost."""

    def __init__(self) -> None:
        super().__init__()
        engine = create_engine("sqlite://", poolclass=StaticPool)
        self.connection: Connection = engine.connect()
        SQLModel.metadata.create_all(self.connection, tables=TABLES)
        self.clock = FixedClock()
        self.channels: dict[str, Any] = {"mp-main": FakeChannel(account=mp_account(), handle=False, limit=20)}
        self.outbox = SqlOutbox(self.channels, self.clock, Limits(max_parts=2))
        self.groups: list[str] = []
        self.claims: list[Claimed] = []
        self.before: dict[int, tuple[str, str | None]] = {}
        self.went_out: dict[int, int] = {}
        self.number = 0

    @initialize(can_push=st.booleans())
    def start(self, can_push: bool) -> None:
        record_capability(self.connection, "mp-main", "acme", "push" if can_push else "pull", self.clock.now_ms())

    @rule(length=st.integers(1, 70), reserved=st.booleans(), final=st.booleans(), repeat_key=st.booleans())
    def put(self, length: int, reserved: bool, final: bool, repeat_key: bool) -> None:
        if repeat_key and self.groups:
            key, expected = "k0", self.groups[0]
        else:
            key, expected = f"k{self.number}", None
            self.number += 1
        draft = Draft(
            idempotency_key=key,
            tenant_id="acme",
            account_id="mp-main",
            conversation_id=WHERE,
            user_id="o1",
            session_id=None,
            cause="inbound",
            cause_id="x",
            text="字" * length,
            label="问题",
            final=final,
            reserve_ms=5000 if reserved else 0,
        )
        group = self.outbox.put(self.connection, draft)
        if expected is not None:
            assert group == expected
        else:
            self.groups.append(group)

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(self.groups))
        part = self.outbox.take_passive(self.connection, group)
        if part is not None:
            self.count(ROWS.c.group_id == group, ROWS.c.part == 0)

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.outbox.release_passive(self.connection, data.draw(st.sampled_from(self.groups)))

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def again(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(self.groups))
        part = self.outbox.give_again(self.connection, group)
        via = self.connection.execute(select(ROWS.c.via).where(ROWS.c.group_id == group, ROWS.c.part == 0)).scalar()
        assert (part is not None) == (via == "passive")

    @rule()
    def pull(self) -> None:
        part = self.outbox.pull(self.connection, WHERE)
        if part is not None:
            self.count(ROWS.c.idempotency_key == part.key)

    @rule()
    def flush(self) -> None:
        assert self.outbox.flush_parked(self.connection, WHERE) <= 3

    @rule(owner=st.sampled_from(["a", "b"]))
    def claim(self, owner: str) -> None:
        now = self.clock.now_ms()
        gate = SendGate(self.outbox, self.channels, now)
        claims, _ = outbox_claims.claim(self.connection, owner, now, 8, gate)
        assert len(claims) <= 1  # one conversation, one sender
        for claim in claims:
            assert outbox_claims.freeze(self.connection, claim, b"x", duplicate_check=False, now_ms=now)
        self.claims += claims

    @precondition(lambda self: self.claims)
    @rule(outcome=st.sampled_from(["sent", "pending", "parked", "unknown", "dead"]), data=st.data())
    def settle(self, outcome: Any, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        values: dict[str, Any] = {"next_attempt_at_ms": self.clock.now_ms()}
        if outcome == "sent":
            values |= {"via": "push", "sent_at_ms": self.clock.now_ms()}
        if outcome == "parked":
            values |= {"park_reason": "window", "next_attempt_at_ms": self.outbox.park_until()}
        if outbox_claims.settle(self.connection, claim, outcome, values, with_group=outcome == "parked") and outcome == "sent":
            self.count(ROWS.c.seq == claim.row["seq"])

    @rule()
    def die(self) -> None:
        """The sender's lease runs out; another process adopts the row and knows it may have been sent."""
        self.connection.execute(ROWS.update().where(ROWS.c.status == "sending").values(lease_until_ms=1))
        for claim in outbox_claims.adopt_orphans(self.connection, "c", 8):
            assert outbox_claims.settle(self.connection, claim, "unknown", {"next_attempt_at_ms": None})
            outbox_claims.repeat(self.connection, claim.row, self.clock.now_ms())

    @rule(seconds=st.sampled_from([2, 60, 8 * 86_400]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        outbox_claims.expire_parked(self.connection, self.clock.now_ms())

    def teardown(self) -> None:
        self.connection.close()

    def count(self, *where: Any) -> None:
        seq = self.connection.execute(select(ROWS.c.seq).where(*where)).scalar_one()
        self.went_out[seq] = self.went_out.get(seq, 0) + 1

    @invariant()
    def every_way_is_set_once(self) -> None:
        """Each row moved only along MOVES, keeps its way for ever, and was accepted at most once."""
        rows = self.connection.execute(select(ROWS.c.seq, ROWS.c.status, ROWS.c.via, ROWS.c.lease_owner)).all()
        for seq, status, via, owner in rows:
            known, way = self.before.get(seq, (status, via))
            assert status == known or reachable(known, status), f"{known} to {status}"
            assert way is None or way == via
            assert (via is not None) == (status == "sent")
            assert (owner is not None) == (status == "sending")
            self.before[seq] = (status, via)
        assert all(times == 1 for times in self.went_out.values())
        assert sum(row[1] == "sending" for row in rows) <= 1


def reachable(before: str, after: str) -> bool:
    """Whether some moves lead from one state to the other."""
    seen: set[str] = set()
    todo = [before]
    while todo:
        for following in MOVES[todo.pop()]:  # type: ignore[index]
            if following == after:
                return True
            if following not in seen:
                seen.add(following)
                todo.append(following)
    return False


TestOutboxMachine = OutboxMachine.TestCase
TestOutboxMachine.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
