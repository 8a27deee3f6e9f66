"""One turn: load session, commands, context, loop, reply, transcript, writes. Reads the database, writes nothing itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from agent import texts
from agent.commands import Command, answer_fast, doctor, fast_command, ordered_command
from agent.context import AgentContextBuilder, Context, Knowledge
from agent.fastlane import picked_in_words
from agent.intents import read_decision
from agent.llm.offline import RuleModel
from agent.long_calls import receipt
from agent.loop import Loop, LoopResult
from agent.ports import StopSignal
from agent.protocol import Capability, Conversation, Deadline, InboundMessage, Reply, ReplySource, TurnResult, Write
from agent.retry import retry
from agent.run import Run, bot_name, permission, remembers
from agent.services import AgentServices
from agent.toolbox import Toolbox
from agent.turn_rows import session_rows, turn_row
from agent.voice import heard_text
from config.ids import new_id
from config.schema import Purpose
from memory import epochs, transcripts
from memory.epochs import Epoch
from memory.segment import segmenter_for
from memory.transcripts import Line
from tools.decided import OpenAction
from tools.open_actions import open_now
from tools.prompt import quoted_lines

_HARD_CHARS = 3000


async def run_turn(
    services: AgentServices,
    message: InboundMessage,
    conversation: Conversation,
    deadline: Deadline,
    capability: Capability,
    stop: StopSignal,
) -> TurnResult:
    """Answer one message. ``deadline`` is the end of the turn itself (not of the reply window, which the caller races).

    All writes are in ``TurnResult.writes``, for the caller to commit with the answer under the turn's fence. Model and tool
    failures are results with ``outcome="failed"``; only programming errors and DatabaseBusy are raised.
    """
    now = services.clock.monotonic()
    deadline = Deadline(min(deadline.at, now + services.settings.limits.turn_s))
    run = Run(services, message, conversation, deadline, capability, stop, new_id("t"), now)

    epoch, window, waiting = await load_session(run)
    command = ordered_command(message, bot_name(run))
    if command is not None:
        return await answer_command(run, command, epoch)
    picked = await picked_in_words(services, message, run.where) if capability.trusted else None
    if picked is not None:
        return TurnResult(picked.replies, "asked", (*picked.writes, turn_row(run, LoopResult(outcome="asked"), 0)))
    text, unreadable = await heard_text(run)
    if unreadable is not None:
        return fixed(run, epoch, unreadable)
    if message.kind == "voice" and (spoken := await spoken_command(run, text)) is not None:
        return spoken
    state = dict(epoch.state)
    context = build_context(run, text, window, state, waiting)
    result = await loop(run, context, state, replaced(text, waiting))
    replies = compose(run, result, await footer(run, result, waiting))
    return finish(run, epoch, state, text, context, result, replies)


async def load_session(run: Run) -> tuple[Epoch, list[Line], list[OpenAction]]:
    """The epoch this turn runs in, its window, and what waits for the person's confirmation, in one read."""
    where, now_ms = run.where, run.services.clock.now_ms()

    def read(connection: Connection) -> tuple[Epoch, list[Line], list[OpenAction]]:
        epoch = epochs.load(connection, where.tenant_id, where.session_id, now_ms)
        session_id = epoch.previous_id or epoch.id
        window = transcripts.recent(connection, where.tenant_id, where.conversation_id, session_id)
        if not run.capability.trusted:
            return epoch, window, []
        return epoch, window, open_now(connection, where.tenant_id, where.conversation_id, run.services.clock)

    epoch, window, waiting = await run.services.database.read(read)
    run.where = replace(where, session_id=epoch.id)
    if epoch.ends is None:
        return epoch, window, waiting
    state = {**epoch.state, "summary": summarize(window)}
    return replace(epoch, state=state), [], waiting


async def answer_command(run: Run, command: Command, epoch: Epoch) -> TurnResult:
    """新会话, 重试, 诊断: words of this conversation's own order."""
    if command.name == "doctor":
        return doctor(run.services, run.message, run.capability)
    if command.name == "retry":
        source = await retry(run.services, run.where)
        if isinstance(source, InboundMessage):
            return await run_turn(run.services, source, run.where, run.deadline, run.capability, run.stop)
        return fixed(run, epoch, source)
    tenant, conversation, now_ms = run.where.tenant_id, run.where.conversation_id, run.services.clock.now_ms()

    def write(connection: Connection) -> None:
        epochs.start_new(connection, tenant, conversation, epoch, now_ms)

    return TurnResult((Reply(texts.NEW_SESSION),), "command", (write,))


async def spoken_command(run: Run, text: str) -> TurnResult | None:
    """A quick command that was said instead of typed; typed ones are answered before any turn."""
    message = replace(run.message, kind="text", text=text)
    command = fast_command(message, bot_name(run))
    if command is None or command.only_if_parked or command.name in ("reissue", "choose"):
        return None
    return await answer_fast(run.services, command, message, run.where, run.capability)


def replaced(text: str, waiting: list[OpenAction]) -> dict[str, str]:
    """Tool → the one open action a change (改成后天) is meant for; a new call of that tool takes its place."""
    decision = read_decision(text)
    if decision is None or decision.kind != "edit":
        return {}
    meant = [action for action in waiting if decision.number in (None, action.number)]
    return {meant[0].tool: meant[0].id} if len(meant) == 1 else {}


def build_context(run: Run, text: str, window: list[Line], state: dict[str, Any], waiting: list[OpenAction]) -> Context:
    """The prompt of this turn, within the smallest context of the routes that may be asked."""
    chars = run.services.router.context_chars("chat", permission(run))
    builder = AgentContextBuilder(total_chars=chars)
    lines = "；".join(f"#{action.number} {action.summary}" for action in waiting[:8])
    knowledge = Knowledge(state=texts.OPEN_ACTIONS.format(lines=lines) if waiting else "")
    return builder.build(
        text,
        window,
        now=run.services.clock.local(),
        summary=str(state.get("summary") or ""),
        knowledge=knowledge,
        platform=run.message.platform,
    )


async def loop(run: Run, context: Context, state: dict[str, Any], replaces: dict[str, str]) -> LoopResult:
    """Model and tools until there is an answer."""
    services, settings = run.services, run.services.settings
    delay_file = settings.data_dir / "demo_model_delay_ms" if settings.demo else None
    tools = Toolbox(services, run.message, run.where, run.capability, run.turn_id, replaces)
    rule = RuleModel(
        state,
        services.clock.local(),
        run.message.subject_kind,
        segmenter_for(settings.data_dir),
        delay_file,
        () if settings.models else tools.withheld(),
    )
    purpose: Purpose = "hard" if len(context.messages[-1].content) > _HARD_CHARS else "chat"
    return await Loop(
        router=services.router,
        rule=rule,
        tools=tools,
        limits=settings.limits,
        clock=services.clock,
        deadline=run.deadline,
        stop=run.stop,
        permission=permission(run),
        purpose=purpose,
        log=run.log,
    ).run(context.messages)


async def footer(run: Run, result: LoopResult, waiting: list[OpenAction]) -> str | None:
    """The line that reminds of what waited before this turn; asked again, because it may have been decided meanwhile."""
    if not waiting or result.outcome in ("failed", "stopped"):
        return None
    own = [reply.action_id for reply in result.prompts if reply.action_id is not None]
    return await run.services.confirm.footer(run.where.tenant_id, run.where.conversation_id, without=own)


def compose(run: Run, result: LoopResult, reminder: str | None) -> tuple[Reply, ...]:
    """The answer as messages: text first, confirmation prompts last (the newest message decides, N-15)."""
    if result.outcome == "stopped":
        question = texts.short(run.message.text)
        text = (
            texts.STOPPED_AFTER.format(question=question, text=result.text)
            if result.text
            else texts.STOPPED.format(question=question)
        )
        return (Reply(quoted_lines(text), source="rule"),)
    if result.outcome == "failed":
        return (Reply(result.text),)
    text = result.text
    if result.job is not None:
        text = "\n".join(part for part in (text, receipt(run.capability)) if part)
    if result.prompts and not run.capability.can_push:
        text = ""  # one message can go out at once here, and it has to be the prompt
    source: ReplySource = "rule" if run.log.route in ("", "rule") else "model"
    if text and run.log.crossed:
        text += "\n" + texts.EXTERNAL_NOTE.format(route=run.log.route)
    text = quoted_lines(text)
    if text.strip() and reminder is not None:
        text += "\n" + reminder
    said = (Reply(text, source=source),) if text.strip() else ()
    return (*said, *result.prompts)


def finish(
    run: Run, epoch: Epoch, state: dict[str, Any], text: str, context: Context, result: LoopResult, replies: tuple[Reply, ...]
) -> TurnResult:
    """The result with everything that must be written: transcript, session, turn row, proposed actions."""
    writes: list[Write] = [*result.writes, turn_row(run, result, context.chars)]
    lines: list[Line] = []
    if result.outcome not in ("failed", "stopped"):
        lines = [Line("user", text), Line("assistant", "\n".join(map(remembered, replies)))]
    if not remembers(run):
        lines, state = [], {key: state[key] for key in ("told_rule",) if key in state}
    writes.append(session_rows(run, epoch, state, lines, overrun=result.ended_by == "tokens"))
    error_code = result.error_code if result.outcome == "failed" else None
    return TurnResult(replies, result.outcome, tuple(writes), job=result.job, error_code=error_code)


def remembered(reply: Reply) -> str:
    """What the transcript keeps of a message. A prompt is told of, not repeated: a model must not learn to write them."""
    if reply.source != "confirm_prompt":
        return reply.text
    what = next((line for line in reply.text.splitlines()[1:] if line.strip()), "")
    return texts.PROMPT_REMEMBERED.format(what=texts.short(what, 80))


def fixed(run: Run, epoch: Epoch, text: str) -> TurnResult:
    """A sentence of ours instead of a turn with a model; only counted."""
    reply = Reply(text, source="rule")  # it may name a file or quote a question: not ours word for word
    return TurnResult((reply,), "answered", (turn_row(run, LoopResult(outcome="answered"), 0),))


def summarize(window: list[Line]) -> str:
    """What the last rounds were about, as extracts; a new epoch starts from it."""
    names = {"user": "用户", "assistant": "助手", "note": "系统"}
    return "\n".join(f"{names[line.role]}：{texts.short(line.text, 160)}" for line in window[-6:])
