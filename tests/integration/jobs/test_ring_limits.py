"""What a pass of the reaper and a wake-up may do at most, over every kind of work."""

from __future__ import annotations

from typing import Any

import redis
from rq import Queue
from rq.serializers import JSONSerializer
from sqlalchemy import Connection, insert

from config.columns import table_of
from gateway.models import Inbound
from gateway.reaper import ACTIONS_AT_MOST, AT_MOST, Reaper
from gateway.services import Services
from memory.models import Conversation
from tests.integration.jobs.steps import queue_job
from tools.models import PendingAction

_INBOUND, _CONVERSATION, _ACTION = table_of(Inbound), table_of(Conversation), table_of(PendingAction)


class Counting:
    """A bell that counts."""

    def __init__(self) -> None:
        self.rings: list[tuple[str, str]] = []

    async def ring(self, queue: str, key: str) -> None:
        """Remember."""
        self.rings.append((queue, key))


def _abandoned(connection: Connection, number: int, now_ms: int) -> None:
    """A conversation with a message nobody works on, and an action confirmed long ago that nobody ran."""
    conversation = f"c{number}"
    base: dict[str, Any] = {"tenant_id": "default", "account_id": "wecom-main", "conversation_id": conversation}
    connection.execute(
        insert(_CONVERSATION).values(
            id=conversation,
            tenant_id="default",
            account_id="wecom-main",
            chat_type="single",
            peer_id=f"u{number}",
            user_id=f"u{number}",
            id_type="wecom_userid",
            fence=0,
            created_at_ms=1,
        )
    )
    message: dict[str, Any] = {
        "key": f"k{number}",
        "user_id": f"u{number}",
        "kind": "text",
        "lane": "turn",
        "status": "received",
        "body": {},
    }
    counts: dict[str, Any] = {"deliveries": 1, "attempts": 0, "deaths": 0, "stop_requested": False}
    times = {"sent_at_ms": now_ms - 60_000, "received_at_ms": now_ms - 60_000}
    connection.execute(insert(_INBOUND).values(**base, **message, **counts, **times))
    action: dict[str, Any] = {
        "id": f"pa{number}",
        "session_id": "s",
        "requester_id": f"u{number}",
        "tool": "todo_create",
        "tool_version": "1",
    }
    action |= {"tool_call_id": "c", "args_json": "{}", "args_digest": "d", "prompt_text": "p", "summary": "s", "number": 1}
    rest = {"status": "confirmed", "decided_at_ms": now_ms - 300_000, "expires_at_ms": now_ms, "created_at_ms": 1}
    more = {"idempotency_key": f"a{number}", "approver_policy": "requester", "risk": "normal", "revision": 1, "fence": 0}
    connection.execute(insert(_ACTION).values(**base, **action, **rest, **more))


async def test_n_09_one_pass_rings_64_over_messages_jobs_and_actions(services: Services) -> None:
    """N-09: at most 64 a pass whatever the kind, actions among them but not alone; the next pass rings others; all get their
    turn within a few passes, none twice within 30 s."""
    now = services.clock.now_ms()
    for number in range(45):
        await services.database.write(lambda c, n=number: _abandoned(c, n, now))  # type: ignore[misc]
        await queue_job(services, status="running", lease_owner="gone", lease_until_ms=1, created_at_ms=now - 60_000)
    bell = Counting()
    services.bell.ring = bell.ring  # type: ignore[method-assign]
    reaper = Reaper(services)
    passes = [await reaper.pass_once() for _ in range(4)]
    assert passes[0] == AT_MOST
    assert max(passes) <= AT_MOST
    assert sum(passes) == 45 * 3
    kinds = [queue for queue, _ in bell.rings[: passes[0]]]
    assert kinds.count("outbox") == ACTIONS_AT_MOST
    assert kinds.count("turn") > 0
    assert len(set(bell.rings)) == len(bell.rings)


async def test_r04_every_wake_up_has_an_id_of_its_own(services: Services, valkey: str) -> None:
    """R04, N-09: ringing twice for the same work makes two jobs in the queue, never one with the first one's times; both end
    within a day."""
    for _ in range(3):
        await services.bell.ring("task", "j1")
    with redis.Redis.from_url(valkey) as connection:
        queue = Queue("task", connection=connection, serializer=JSONSerializer)
        assert len(set(queue.job_ids)) == 3
        assert all(job.result_ttl == 0 and 0 < (job.failure_ttl or 0) <= 86_400 for job in queue.jobs)
