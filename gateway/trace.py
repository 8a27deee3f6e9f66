"""One message's whole story, from callback to delivery, put together from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, RowMapping, func, or_, select

from agent.models import Turn
from config.columns import table_of
from gateway import texts
from gateway import trace_texts as told
from gateway.models import Inbound, Job, OutboxMessage, Push
from gateway.texts import quote
from tools.models import PendingAction, ToolAudit

_INBOUND, _OUTBOX, _JOB = table_of(Inbound), table_of(OutboxMessage), table_of(Job)
_TURN, _AUDIT, _ACTION, _PUSH = table_of(Turn), table_of(ToolAudit), table_of(PendingAction), table_of(Push)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened at ``at_ms``; ``at_ms`` None for what has no moment of its own."""

    at_ms: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Story:
    """Everything about one message, in order. ``title`` says which one; ``verdict`` how it stands, in one sentence."""

    title: str
    steps: tuple[Step, ...] = ()
    verdict: str = ""
    ids: dict[str, Any] = field(default_factory=dict)


def stories(connection: Connection, wanted: str, *, limit: int = 5, bodies: bool = False) -> list[Story]:
    """The stories that an id (message id, row number, key, outbox group, job, push, action) or a user id names.

    A user's are the newest ``limit``, oldest first. Message texts are told only with ``bodies``.
    """
    seqs = _inbound_seqs(connection, wanted, limit)
    if seqs:
        return [_inbound_story(connection, seq, bodies) for seq in sorted(seqs)]
    groups = _groups(connection, wanted, limit)
    return [_outgoing_story(connection, group, bodies) for group in groups]


def _inbound_seqs(connection: Connection, wanted: str, limit: int) -> list[int]:
    exact = or_(_INBOUND.c.message_id == wanted, _INBOUND.c.key == wanted, _INBOUND.c.answer_group == wanted)
    found = _seqs(connection, exact, limit)
    if not found and wanted.isdecimal() and len(wanted) < 16:
        found = _seqs(connection, _INBOUND.c.seq == int(wanted), limit)
    if not found:
        found = _seqs(connection, _INBOUND.c.seq.in_(_owners(connection, wanted)), limit)
    if not found:
        found = _seqs(connection, func.lower(_INBOUND.c.user_id) == wanted.lower(), limit)
    if not found:
        found = _seqs(connection, _INBOUND.c.conversation_id == wanted, limit)
    return found


def _seqs(connection: Connection, where: Any, limit: int) -> list[int]:
    query = select(_INBOUND.c.seq).where(where).order_by(_INBOUND.c.seq.desc()).limit(limit)
    return [int(seq) for seq in connection.execute(query).scalars()]


def _owners(connection: Connection, wanted: str) -> list[int]:
    """Inbound rows behind a job, turn, action, or answer with this id."""
    owners: set[int] = set()
    for table in (_JOB, _TURN, _ACTION):
        owners |= {row for row in connection.execute(select(table.c.inbound_seq).where(table.c.id == wanted)).scalars() if row}
    answers = select(_OUTBOX.c.cause_id).where(
        or_(_OUTBOX.c.group_id == wanted, _OUTBOX.c.platform_id == wanted, _OUTBOX.c.idempotency_key == wanted),
        _OUTBOX.c.cause == "inbound",
    )
    owners |= {int(cause) for cause in connection.execute(answers).scalars() if str(cause).isdecimal()}
    return sorted(owners)


def _groups(connection: Connection, wanted: str, limit: int) -> list[str]:
    """Outgoing messages without an inbound one: pushes, reminders, notices."""
    where = or_(
        _OUTBOX.c.group_id == wanted,
        _OUTBOX.c.cause_id == wanted,
        _OUTBOX.c.platform_id == wanted,
        _OUTBOX.c.idempotency_key == wanted,
        func.lower(_OUTBOX.c.user_id) == wanted.lower(),
    )
    newest = func.max(_OUTBOX.c.seq)
    query = select(_OUTBOX.c.group_id).where(where).group_by(_OUTBOX.c.group_id).order_by(newest.desc()).limit(limit)
    return list(reversed(list(connection.execute(query).scalars())))


def _inbound_story(connection: Connection, seq: int, bodies: bool) -> Story:
    row = connection.execute(select(_INBOUND).where(_INBOUND.c.seq == seq)).mappings().one()
    owner = row["joined_seq"] or seq
    steps = [*_arrival(row, bodies)]
    steps += _turn_steps(connection, owner)
    steps += _action_steps(connection, owner)
    steps += _job_steps(connection, owner)
    rows = _answer_rows(connection, row, owner)
    steps += [step for part in rows for step in _outbox_steps(part, bodies)]
    if row["finished_at_ms"]:
        steps.append(Step(row["finished_at_ms"], told.STATUS.get(row["status"], row["status"]) + _code(row)))
    title = f"#{seq} {row['account_id']} ← {row['user_id']} {row['kind']}"
    return Story(title, _in_order(steps), _verdict(row, rows), {"seq": seq, "message_id": row["message_id"]})


def _arrival(row: RowMapping, bodies: bool) -> Iterator[Step]:
    number = told.MESSAGE_ID.format(id=row["message_id"]) if row["message_id"] else ""
    yield Step(row["sent_at_ms"], told.SENT.format(text=_body(row["body"], bodies), number=number))
    again = told.AGAIN.format(count=row["deliveries"]) if row["deliveries"] > 1 else ""
    yield Step(row["received_at_ms"], told.RECEIVED.format(lane=told.LANE.get(row["lane"], row["lane"]), again=again))
    if row["joined_seq"]:
        yield Step(row["received_at_ms"], told.JOINED.format(seq=row["joined_seq"]))
    if row["attempts"]:
        yield Step(None, told.ATTEMPTS.format(count=row["attempts"]))
    if row["deaths"]:
        yield Step(None, told.DEATHS.format(count=row["deaths"]))
    if row["stop_requested"]:
        yield Step(None, told.STOPPED)


def _turn_steps(connection: Connection, seq: int) -> Iterator[Step]:
    for turn in connection.execute(select(_TURN).where(_TURN.c.inbound_seq == seq).order_by(_TURN.c.created_at_ms)).mappings():
        tokens = {"prompt": turn["prompt_tokens"], "completion": turn["completion_tokens"]}
        text = told.TURN.format(
            outcome=turn["outcome"],
            code=_code(turn),
            route=turn["route"],
            used=told.TOKENS.format(**tokens) if turn["model_calls"] else "",
            total_ms=turn["total_ms"],
            model_ms=turn["model_ms"],
            tools=told.TOOLS.format(tools="、".join(turn["tools"])) if turn["tools"] else "",
        )
        yield Step(turn["created_at_ms"], text)
        audits = select(_AUDIT).where(_AUDIT.c.turn_id == turn["id"], _AUDIT.c.action_id.is_(None)).order_by(_AUDIT.c.id)
        yield from (_audit_step(audit) for audit in connection.execute(audits).mappings())


def _action_steps(connection: Connection, seq: int) -> Iterator[Step]:
    query = select(_ACTION).where(_ACTION.c.inbound_seq == seq).order_by(_ACTION.c.created_at_ms)
    for action in connection.execute(query).mappings():
        shown = {"tool": action["tool"], "number": action["number"], "risk": action["risk"]}
        yield Step(action["created_at_ms"], told.ACTION.format(**shown))
        if action["decided_at_ms"]:
            decided = told.DECIDED.format(who=action["decided_by"], via=action["decided_via"])
            yield Step(action["decided_at_ms"], decided)
        if action["finished_at_ms"]:
            ended = told.ACTION_ENDED.format(tool=action["tool"], status=action["status"], code=_code(action))
            yield Step(action["finished_at_ms"], ended)
        audits = select(_AUDIT).where(_AUDIT.c.action_id == action["id"]).order_by(_AUDIT.c.id)
        yield from (_audit_step(audit) for audit in connection.execute(audits).mappings())


def _audit_step(audit: RowMapping) -> Step:
    ended = told.TOOL_OK if audit["ok"] else told.TOOL_FAILED.format(code=audit["error_code"] or told.NO_CODE)
    shown = {"tool": audit["tool"], "decision": audit["decision"], "took_ms": audit["took_ms"]}
    return Step(audit["created_at_ms"], told.TOOL.format(ended=ended, **shown))


def _job_steps(connection: Connection, seq: int) -> Iterator[Step]:
    for job in connection.execute(select(_JOB).where(_JOB.c.inbound_seq == seq).order_by(_JOB.c.created_at_ms)).mappings():
        name = job["name"]
        yield Step(job["created_at_ms"], told.JOB.format(name=name, queue=job["queue"], id=job["id"]))
        if job["started_at_ms"]:
            number = max(1, job["attempts"] + job["deaths"])
            yield Step(job["started_at_ms"], told.JOB_STARTED.format(name=name, number=number))
        if job["finished_at_ms"]:
            yield Step(job["finished_at_ms"], told.JOB_ENDED.format(name=name, status=job["status"], code=_code(job)))


def _answer_rows(connection: Connection, row: RowMapping, owner: int) -> list[RowMapping]:
    jobs = select(_JOB.c.id).where(_JOB.c.inbound_seq == owner)
    actions = select(_ACTION.c.id).where(_ACTION.c.inbound_seq == owner)
    where = or_(
        (_OUTBOX.c.cause == "inbound") & (_OUTBOX.c.cause_id == str(owner)),
        (_OUTBOX.c.cause == "job") & _OUTBOX.c.cause_id.in_(jobs),
        (_OUTBOX.c.cause == "action") & _OUTBOX.c.cause_id.in_(actions),
        _OUTBOX.c.group_id == (row["answer_group"] or ""),
    )
    return list(connection.execute(select(_OUTBOX).where(where).order_by(_OUTBOX.c.seq)).mappings())


def _outbox_steps(row: RowMapping, bodies: bool) -> Iterator[Step]:
    name = told.ANSWER if row["final"] else told.CAUSE.get(row["cause"], told.MESSAGE)
    part = told.PART.format(part=row["part"] + 1, parts=row["parts"]) if row["parts"] > 1 else ""
    text = _body(row["payload"], bodies)
    yield Step(
        row["created_at_ms"], told.WRITTEN.format(name=name, part=part, kind=row["kind"], group=row["group_id"], text=text)
    )
    if row["sent_at_ms"]:
        tries = told.TRY.format(count=row["attempts"]) if row["attempts"] > 1 else ""
        number = told.PLATFORM_ID.format(id=row["platform_id"]) if row["platform_id"] and row["via"] == "push" else ""
        via = told.VIA.get(row["via"], "")
        yield Step(row["sent_at_ms"], told.DELIVERED.format(name=name, part=part, via=via, tries=tries, number=number))
    else:
        yield Step(None, told.NOW.format(name=name, part=part, state=_state_of(row)))


def _state_of(row: RowMapping) -> str:
    state: str = texts.OUTBOX_STATES.get(row["status"], row["status"])
    reason = texts.PARK_REASONS.get(row["park_reason"] or "", row["park_reason"])
    tries = told.TRIED.format(count=row["attempts"]) if row["attempts"] else ""
    said = told.PLATFORM_SAID.format(errcode=row["errcode"], errmsg=row["errmsg"] or "") if row["errcode"] else row["errmsg"]
    return state + (told.REASON.format(reason=reason) if reason else "") + tries + (told.TOLD.format(told=said) if said else "")


def _verdict(row: RowMapping, answers: Sequence[RowMapping]) -> str:
    status = told.STATUS.get(row["status"], row["status"])
    if row["lane"] == "none":
        return told.ONLY_NOTED
    if row["status"] in ("received", "running"):
        return told.OPEN.format(status=status)
    if not answers:
        return told.NOTHING_TO_SAY if row["status"] == "done" else told.ENDED.format(status=status)
    waiting = [answer for answer in answers if answer["status"] != "sent"]
    if not waiting:
        ways = "、".join(dict.fromkeys(told.VIA.get(answer["via"], answer["via"] or "") for answer in answers))
        return told.ARRIVED.format(ways=ways)
    return told.PARTLY.format(sent=len(answers) - len(waiting), all=len(answers), state=_state_of(waiting[0]))


def _code(row: RowMapping) -> str:
    return told.CODE.format(code=row["error_code"]) if row["error_code"] else ""


def _body(stored: Any, bodies: bool) -> str:
    return told.BODY.format(text=quote((stored or {}).get("text", ""), 60)) if bodies and stored else ""


def _outgoing_story(connection: Connection, group: str, bodies: bool) -> Story:
    rows = list(connection.execute(select(_OUTBOX).where(_OUTBOX.c.group_id == group).order_by(_OUTBOX.c.seq)).mappings())
    first = rows[0]
    steps = [step for row in rows for step in _outbox_steps(row, bodies)]
    if first["cause"] == "push":
        push = connection.execute(select(_PUSH).where(_PUSH.c.id == first["cause_id"])).mappings().first()
        if push is not None:
            steps.append(Step(push["created_at_ms"], told.PUSH.format(id=push["id"], targets=push["targets"])))
    waiting = [row for row in rows if row["status"] != "sent"]
    verdict = told.NOT_SENT.format(state=_state_of(waiting[0])) if waiting else told.AT_PLATFORM
    return Story(
        f"{group} {first['account_id']} → {first['user_id'] or first['target']} {first['cause']}", _in_order(steps), verdict
    )


def _in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """By time; steps without a moment stay behind the one they follow."""
    timed: list[tuple[int, int, Step]] = []
    last = 0
    for index, step in enumerate(steps):
        last = step.at_ms if step.at_ms is not None else last
        timed.append((last, index, step))
    return tuple(step for _, _, step in sorted(timed, key=lambda item: item[:2]))
