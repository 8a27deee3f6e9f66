"""Posts a message to a group through its robot; the robot is an outbox target, sent by delivery like everything else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from config.ports import Draft
from config.schema import Robot, Settings, Tenant, WecomAccount
from tools import texts
from tools.base import Prepared, Tool, ToolContext, ToolFailed, ToolResult, phrases


def build(settings: Settings, tenant: Tenant) -> list[Tool]:
    """The tool, where the tenant has robots."""
    robots = {robot.id: robot for robot in tenant.tools.robots}
    if not robots:
        return []

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        return Prepared(arguments, {"robot": robots[arguments["robot"]].title})

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(commit=lambda c: _put(c, context, robots[arguments["robot"]], arguments["text"]))

    names = "，".join(f"{robot.id}={robot.title}" for robot in robots.values())
    return [
        Tool(
            name="notify_group",
            title="通知群",
            description="通过群机器人发一条群通知",
            parameters={
                "type": "object",
                "properties": {
                    "robot": {"type": "string", "enum": list(robots), "title": "群", "description": f"哪个群：{names}"},
                    "text": {"type": "string", "minLength": 1, "maxLength": 600, "title": "内容", "description": "通知内容"},
                },
                "required": ["robot", "text"],
                "additionalProperties": False,
            },
            run=run,
            prepare=prepare,
            tool_class="operation",
            idempotent=True,
            confirm_template="发到{robot}：{text}",
            labels={"robot": "群", "text": "内容"},
            examples=("在运维群通知：今晚十点维护",),
            triggers=phrases(
                "^通知大家、^告诉大家、通知群、^通知 群、^告诉 群、发到 群、群通知、群 通知、发群里、在 群 说、"
                "群 发一条、群 发消息、群 发通知、群里 说、群发"
            ),
        )
    ]


def _put(connection: Connection, context: ToolContext, robot: Robot, text: str) -> ToolResult:
    account = next((a.id for a in context.tenant.accounts if isinstance(a, WecomAccount)), context.account_id)
    if not any(a.id == account for a in context.tenant.accounts):
        raise ToolFailed("no account to send through", user_text=texts.MESSAGE_NO_DIRECTORY)
    where = "r" + hashlib.sha256(f"{context.tenant_id}:{robot.id}".encode()).hexdigest()[:31]
    group = context.outbox.put(
        connection,
        Draft(
            idempotency_key=f"notify:{context.call_key}",
            tenant_id=context.tenant_id,
            account_id=account,
            conversation_id=where,
            user_id=robot.id,
            session_id=None,
            cause="notice",
            cause_id=context.call_key,
            text=text,
            source="tool",
            target={"webhook": robot.id},
        ),
    )
    return ToolResult(texts.NOTIFY_QUEUED.format(title=robot.title), raw={"group": group}, values={"robot": robot.title})
