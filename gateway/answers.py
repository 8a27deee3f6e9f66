"""Stores what a turn, a command or an action answered: outbox rows and the inbound row's end, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, bindparam, select, update

from agent.protocol import Capability, Conversation, InboundMessage, JobRequest, Reply
from config.columns import table_of
from config.ids import new_id
from config.ports import Draft, Outbox
from gateway.models import Inbound, Job
from gateway.outbox_pull import stuck_notice
from gateway.texts import quote
from tools.proposals import overtaken

_INBOUND = table_of(Inbound)
_JOB = table_of(Job)
_MERGED_BYTES = 2000
_END = (
    update(_INBOUND)
    .where(_INBOUND.c.seq.in_(bindparam("ended", expanding=True)))
    .values(
        status=bindparam("as"), answer_group=bindparam("group"), error_code=bindparam("code"), finished_at_ms=bindparam("now")
    )
)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a commit left: the group of the first reply (None for an empty answer), whether it is reserved for a waiting
    HTTP handler, and the id of a queued job."""

    group: str | None
    reserved: bool
    job_id: str | None = None


def store_answer(
    connection: Connection,
    outbox: Outbox,
    where: Conversation,
    message: InboundMessage,
    seqs: Sequence[int],
    replies: Sequence[Reply],
    *,
    capability: Capability,
    reserve_ms: int,
    status: str,
    now_ms: int,
    error_code: str | None = None,
) -> Stored:
    """Put the replies into the outbox and end the inbound rows ``seqs`` (the first one owns the answer)."""
    group = None
    replies = [_as_it_stands(connection, reply) for reply in replies]
    for index, reply in enumerate(_with_notice(connection, where, _fit_channel(replies, capability))):
        key = f"in:{seqs[0]}" if index == 0 else f"in:{seqs[0]}:{index}"
        stored = outbox.put(connection, _draft(reply, where, message, key, seqs[0], reserve_ms if index == 0 else 0))
        group = group or stored
    ended = {"ended": list(seqs), "as": status, "group": group, "code": error_code, "now": now_ms}
    connection.execute(_END, ended)
    return Stored(group, reserved=group is not None and reserve_ms > 0)


def stored_before(connection: Connection, seq: int) -> Stored | None:
    """What an earlier try stored for the inbound row ``seq``, whose commit was done though it seemed to fail; else None."""
    row = connection.execute(select(_INBOUND.c.status, _INBOUND.c.answer_group).where(_INBOUND.c.seq == seq)).one()
    if row.status in ("received", "running"):
        return None
    return Stored(row.answer_group, reserved=row.answer_group is not None)


def store_job(
    connection: Connection, where: Conversation, request: JobRequest, inbound_seq: int, now_ms: int, queue: str = "task"
) -> str:
    """Queue long work bound to person and session (S001-39); returns the job's id."""
    job_id = new_id("j")
    connection.execute(
        _JOB.insert().values(
            id=job_id,
            tenant_id=where.tenant_id,
            account_id=where.account_id,
            conversation_id=where.conversation_id,
            session_id=where.session_id,
            user_id=where.user_id,
            queue=queue,
            name=request.name,
            args=dict(request.args),
            inbound_seq=inbound_seq,
            status="queued",
            attempts=0,
            deaths=0,
            cancel_requested=False,
            fence=0,
            created_at_ms=now_ms,
        )
    )
    return job_id


def _as_it_stands(connection: Connection, reply: Reply) -> Reply:
    """A confirmation prompt, or why there is nothing left to confirm: the writes before this may have found that out."""
    text = overtaken(connection, reply.action_id) if reply.action_id is not None else None
    return reply if text is None else Reply(text)


def _fit_channel(replies: Sequence[Reply], capability: Capability) -> list[Reply]:
    """Without push only one message can go out now, so short plain texts become one."""
    kept = [reply for reply in replies if reply.text or reply.kind != "text"]
    if capability.can_push or len(kept) < 2 or any(reply.kind != "text" for reply in kept):
        return kept
    text = "\n\n".join(reply.text for reply in kept)
    if len(text.encode()) > _MERGED_BYTES or len({reply.source for reply in kept} & {"model", "tool"}) > 0:
        return sorted(kept, key=lambda reply: reply.source != "confirm_prompt")
    prompts = [reply for reply in kept if reply.source == "confirm_prompt"]
    return [replace(prompts[0] if prompts else kept[0], text=text)]


def _with_notice(connection: Connection, where: Conversation, replies: list[Reply]) -> list[Reply]:
    """Who writes while earlier answers are stuck on an operator is told so in the answer, which can still go passively."""
    if not replies or replies[0].kind != "text" or replies[0].source == "confirm_prompt":
        return replies
    notice = stuck_notice(connection, where.conversation_id, where.account_id)
    return replies if notice is None else [replace(replies[0], text=f"{notice}\n\n{replies[0].text}"), *replies[1:]]


def _draft(reply: Reply, where: Conversation, message: InboundMessage, key: str, seq: int, reserve_ms: int) -> Draft:
    return Draft(
        idempotency_key=key,
        tenant_id=where.tenant_id,
        account_id=where.account_id,
        conversation_id=where.conversation_id,
        user_id=where.user_id,
        session_id=where.session_id,
        cause="inbound",
        cause_id=str(seq),
        kind=reply.kind,
        text=reply.text,
        data=reply.data,
        source=reply.source,
        label=None if reply.action_id is not None else quote(message.text) or None,  # a prompt has no room and needs none
        action_id=reply.action_id,
        final=True,
        reserve_ms=reserve_ms,
    )
