"""One message's whole story, from callback to delivery, put together from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, RowMapping, func, or_, select

from agent.models import Turn
from config.columns import table_of
from gateway import texts
from gateway.models import Inbound, Job, OutboxMessage, Push
from gateway.texts import quote
from tools.models import PendingAction, ToolAudit

_INBOUND, _OUTBOX, _JOB = table_of(Inbound), table_of(OutboxMessage), table_of(Job)
_TURN, _AUDIT, _ACTION, _PUSH = table_of(Turn), table_of(ToolAudit), table_of(PendingAction), table_of(Push)

_STATUS = {
    "received": "已落库，等待处理",
    "running": "正在处理",
    "done": "处理完",
    "failed": "失败",
    "stopped": "被叫停",
    "dead": "多次失败，已放弃",
    "refused": "太多，没收下（已告知对方）",
}
_VIA = {"passive": "在 HTTP 应答里", "push": "主动推送", "pull": "对方回复「继续」时"}
_LANE = {"turn": "进入对话", "single": "命令，按顺序", "fast": "快速通道", "none": "只记录，不回应"}


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
        code = f"（{row['error_code']}）" if row["error_code"] else ""
        steps.append(Step(row["finished_at_ms"], f"{_STATUS.get(row['status'], row['status'])}{code}"))
    title = f"#{seq} {row['account_id']} ← {row['user_id']} {row['kind']}"
    return Story(title, _in_order(steps), _verdict(row, rows), {"seq": seq, "message_id": row["message_id"]})


def _arrival(row: RowMapping, bodies: bool) -> Iterator[Step]:
    text = f"「{quote((row['body'] or {}).get('text', ''), 60)}」" if bodies and row["body"] else ""
    number = f"，平台消息号 {row['message_id']}" if row["message_id"] else ""
    yield Step(row["sent_at_ms"], f"对方发出{text}{number}")
    again = f"，平台共投递 {row['deliveries']} 次（重复的并到这一条）" if row["deliveries"] > 1 else ""
    lane = _LANE.get(row["lane"], row["lane"])
    yield Step(row["received_at_ms"], f"收到回调，验签解密通过，已落库；{lane}{again}")
    if row["joined_seq"]:
        yield Step(row["received_at_ms"], f"并入 #{row['joined_seq']} 一起回答")
    if row["deaths"]:
        yield Step(None, f"处理它的进程死过 {row['deaths']} 次，由租约找回重跑")
    if row["stop_requested"]:
        yield Step(None, "对方要求停止")


def _turn_steps(connection: Connection, seq: int) -> Iterator[Step]:
    for turn in connection.execute(select(_TURN).where(_TURN.c.inbound_seq == seq).order_by(_TURN.c.created_at_ms)).mappings():
        used = f"{turn['prompt_tokens']}+{turn['completion_tokens']} tokens，" if turn["model_calls"] else ""
        code = f"（{turn['error_code']}）" if turn["error_code"] else ""
        tools = f"，工具 {'、'.join(turn['tools'])}" if turn["tools"] else ""
        yield Step(
            turn["created_at_ms"],
            f"一轮：{turn['outcome']}{code}，路由 {turn['route']}，{used}"
            f"共 {turn['total_ms']} ms（模型 {turn['model_ms']} ms）{tools}",
        )
        audits = select(_AUDIT).where(_AUDIT.c.turn_id == turn["id"], _AUDIT.c.action_id.is_(None)).order_by(_AUDIT.c.id)
        yield from (_audit_step(audit) for audit in connection.execute(audits).mappings())


def _action_steps(connection: Connection, seq: int) -> Iterator[Step]:
    query = select(_ACTION).where(_ACTION.c.inbound_seq == seq).order_by(_ACTION.c.created_at_ms)
    for action in connection.execute(query).mappings():
        yield Step(action["created_at_ms"], f"操作 {action['tool']} 等本人确认（编号 {action['number']}，风险 {action['risk']}）")
        if action["decided_at_ms"]:
            yield Step(action["decided_at_ms"], f"{action['decided_by']} 经 {action['decided_via']} 作了决定")
        if action["finished_at_ms"]:
            code = f"（{action['error_code']}）" if action["error_code"] else ""
            yield Step(action["finished_at_ms"], f"操作 {action['tool']} 结束：{action['status']}{code}")
        audits = select(_AUDIT).where(_AUDIT.c.action_id == action["id"]).order_by(_AUDIT.c.id)
        yield from (_audit_step(audit) for audit in connection.execute(audits).mappings())


def _audit_step(audit: RowMapping) -> Step:
    ended = "成功" if audit["ok"] else f"失败（{audit['error_code'] or '无代码'}）"
    return Step(audit["created_at_ms"], f"工具 {audit['tool']}（{audit['decision']}）{ended}，{audit['took_ms']} ms")


def _job_steps(connection: Connection, seq: int) -> Iterator[Step]:
    for job in connection.execute(select(_JOB).where(_JOB.c.inbound_seq == seq).order_by(_JOB.c.created_at_ms)).mappings():
        yield Step(job["created_at_ms"], f"长任务 {job['name']} 排入队列 {job['queue']}（{job['id']}）")
        if job["started_at_ms"]:
            yield Step(job["started_at_ms"], f"worker 开始执行 {job['name']}，第 {max(1, job['attempts'] + job['deaths'])} 次")
        if job["finished_at_ms"]:
            code = f"（{job['error_code']}）" if job["error_code"] else ""
            yield Step(job["finished_at_ms"], f"长任务 {job['name']} 结束：{job['status']}{code}")


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
    name = "回答" if row["final"] else {"push": "推送", "reminder": "提醒", "notice": "通知"}.get(row["cause"], "消息")
    part = f"第 {row['part'] + 1}/{row['parts']} 条" if row["parts"] > 1 else ""
    text = f"「{quote((row['payload'] or {}).get('text', ''), 60)}」" if bodies and row["payload"] else ""
    yield Step(row["created_at_ms"], f"{name}{part}写好（{row['kind']}，{row['group_id']}）{text}")
    if row["sent_at_ms"]:
        tries = f"，第 {row['attempts']} 次尝试" if row["attempts"] > 1 else ""
        number = f"，平台编号 {row['platform_id']}" if row["platform_id"] and row["via"] == "push" else ""
        yield Step(row["sent_at_ms"], f"{name}{part}{_VIA.get(row['via'], '')}送出{tries}{number}")
    else:
        yield Step(None, f"{name}{part}现在：{_state_of(row)}")


def _state_of(row: RowMapping) -> str:
    state: str = texts.OUTBOX_STATES.get(row["status"], row["status"])
    reason = texts.PARK_REASONS.get(row["park_reason"] or "", row["park_reason"])
    tries = f"，试过 {row['attempts']} 次" if row["attempts"] else ""
    told = f"平台答 {row['errcode']}：{row['errmsg'] or ''}" if row["errcode"] else row["errmsg"]
    code = f"，{told}" if told else ""
    return state + (f"（{reason}）" if reason else "") + tries + code


def _verdict(row: RowMapping, answers: Sequence[RowMapping]) -> str:
    if row["lane"] == "none":
        return "这类事件只记录，不回应。"
    if row["status"] in ("received", "running"):
        return f"还没有回答：{_STATUS[row['status']]}。"
    if not answers:
        return "没有要说的话（空回答）。" if row["status"] == "done" else f"{_STATUS.get(row['status'], row['status'])}。"
    waiting = [answer for answer in answers if answer["status"] != "sent"]
    if not waiting:
        ways = "、".join(dict.fromkeys(_VIA.get(answer["via"], answer["via"] or "") for answer in answers))
        return f"已送到平台（{ways}）。"
    return f"{len(answers) - len(waiting)}/{len(answers)} 条已送出；其余：{_state_of(waiting[0])}。"


def _outgoing_story(connection: Connection, group: str, bodies: bool) -> Story:
    rows = list(connection.execute(select(_OUTBOX).where(_OUTBOX.c.group_id == group).order_by(_OUTBOX.c.seq)).mappings())
    first = rows[0]
    steps = [step for row in rows for step in _outbox_steps(row, bodies)]
    if first["cause"] == "push":
        push = connection.execute(select(_PUSH).where(_PUSH.c.id == first["cause_id"])).mappings().first()
        if push is not None:
            steps.append(Step(push["created_at_ms"], f"推送请求 {push['id']}，{push['targets']} 个对象"))
    waiting = [row for row in rows if row["status"] != "sent"]
    verdict = f"还没有送出：{_state_of(waiting[0])}。" if waiting else "已送到平台。"
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
