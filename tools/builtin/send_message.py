"""Sends a message to a colleague: the name is resolved inside the app's visible range before the person is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from config.ports import Draft
from memory.keys import conversation_id
from tools import texts
from tools.base import AskPerson, Option, Prepared, Tool, ToolContext, ToolRefused, ToolResult, phrases
from tools.ports import Member
from tools.prompt import quoted, visible

_PLAIN_NAME = re.compile(r"[\w·. -]{1,40}")
"""Anything else in a name could read as part of the prompt, so it is quoted (N-17)."""


async def _prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
    if context.id_type != "wecom_userid":
        raise ToolRefused("no directory here", user_text=texts.MESSAGE_NO_DIRECTORY)
    member = await _find(context, arguments["to"].strip(), arguments)
    return Prepared({**arguments, "to": member.user_id}, {"to": _who(member)})


async def _find(context: ToolContext, name: str, arguments: Mapping[str, Any]) -> Member:
    """Exactly one colleague, or a question (two 张三 → ask)."""
    exact = await context.platform.member(context.account_id, name) if name.isascii() else None
    if exact is not None:
        return exact
    found = list(await context.platform.members_named(context.account_id, name))
    if not found:
        raise AskPerson("nobody of this name", user_text=texts.MESSAGE_NOBODY.format(name=name[:40]))
    if len(found) > 1:
        options = [Option(_who(one, with_department=True), {**arguments, "to": one.user_id}) for one in found]
        text = texts.MESSAGE_SEVERAL.format(count=len(found), name=name[:40])
        raise AskPerson("several of this name", user_text=text, options=options)
    return found[0]


def _who(member: Member, *, with_department: bool = False) -> str:
    department = f"，{member.department}" if with_department and member.department else ""
    name = member.name if _PLAIN_NAME.fullmatch(member.name) else quoted(member.name, 40)
    return f"{name}（{visible(member.user_id + department)}）"


async def _send(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    receiver = await _find(context, arguments["to"], arguments)
    sender = await context.platform.member(context.account_id, context.user_id)
    said_by = _who(sender) if sender is not None else context.user_id
    text = texts.MESSAGE_FROM.format(sender=said_by, text=arguments["text"])
    return ToolResult(commit=lambda c: _put(c, context, receiver, text))


def _put(connection: Connection, context: ToolContext, receiver: Member, text: str) -> ToolResult:
    where = conversation_id(context.tenant_id, context.account_id, "single", receiver.user_id.lower())
    group = context.outbox.put(
        connection,
        Draft(
            idempotency_key=f"message:{context.call_key}",
            tenant_id=context.tenant_id,
            account_id=context.account_id,
            conversation_id=where,
            user_id=receiver.user_id,
            session_id=None,
            cause="notice",
            cause_id=context.call_key,
            text=text,
            source="tool",
            target={"users": [receiver.user_id]},
        ),
    )
    return ToolResult(texts.MESSAGE_QUEUED.format(who=_who(receiver)), raw={"group": group}, values={"to": receiver.user_id})


send_message = Tool(
    name="send_message",
    title="给同事发消息",
    description="给一位同事发一条消息",
    parameters={
        "type": "object",
        "properties": {
            "to": {"type": "string", "minLength": 1, "maxLength": 64, "title": "收件人", "description": "同事的姓名或账号"},
            "text": {"type": "string", "minLength": 1, "maxLength": 500, "title": "内容", "description": "消息内容"},
        },
        "required": ["to", "text"],
        "additionalProperties": False,
    },
    run=_send,
    prepare=_prepare,
    tool_class="operation",
    idempotent=True,
    confirm_template="发给{to}：{text}",
    labels={"to": "收件人", "text": "内容"},
    examples=("告诉张三：会议改到三点", "给李四发消息，文档已更新"),
    triggers=phrases(
        "发消息给!我、发个消息给!我、发条消息给!我、^发消息$、给!我!你 发消息、给!我!你 发条消息、"
        "给!我!你 发个消息、给!我!你 发信息、给!我!你 发个信息、给!我!你 发微信、给!我!你 发个微信、"
        "给!我!你 留言、给!我!你 捎句话、给!我!你 带句话、给!我!你 留个言、给同事发消息、^转告!我、"
        "^转达!我、通知同事、给!我!你 说一、给!我!你 说声、^告诉!我!咱!你!大、^通知!我!咱!你!大、"
        "^跟!我!你!大 说、^和!我!你!大 说一、^跟!我!你!大 讲、^@、^发给!我"
    ),
)
