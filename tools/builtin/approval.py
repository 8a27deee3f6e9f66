"""Submits an application to the approval app (WeCom 审批). The platform offers no key, so a lost answer stays unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.schema import Settings, Tenant, WecomAccount
from tools import texts
from tools.base import Tool, ToolContext, ToolRefused, ToolResult, phrases


async def _submit(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    account = context.settings.account(context.account_id)
    template = account.approval_template_id if isinstance(account, WecomAccount) else None
    if template is None:
        raise ToolRefused("no approval template", user_text=texts.APPROVAL_UNAVAILABLE)
    fields = [{"label": _LABELS[key], "value": str(arguments[key])} for key in ("title", "reason") if key in arguments]
    application = {"template_id": template, "creator": context.user_id, "title": arguments["title"], "fields": fields}
    sp_no = await context.platform.submit_approval(context.account_id, application)
    return ToolResult(texts.APPROVAL_SENT.format(sp_no=sp_no), raw={"sp_no": sp_no}, values={"sp_no": sp_no})


_LABELS = {"title": "标题", "reason": "说明"}


def build(settings: Settings, tenant: Tenant) -> list[Tool]:
    """The tool, where an account has an approval template."""
    if not any(isinstance(account, WecomAccount) and account.approval_template_id for account in tenant.accounts):
        return []
    return [
        Tool(
            name="approval_submit",
            title="提交审批",
            description="提交一个审批申请",
            parameters={
                "type": "object",
                "properties": {
                    "title": {"type": "string", "minLength": 1, "maxLength": 100, "title": "标题", "description": "申请什么"},
                    "reason": {"type": "string", "maxLength": 500, "title": "说明", "description": "理由和说明"},
                },
                "required": ["title"],
                "additionalProperties": False,
            },
            run=_submit,
            tool_class="operation",
            timeout_s=15.0,
            confirm_template="提交审批：{title}",
            labels=_LABELS,
            examples=("提交审批：申请采购两台显示器",),
            triggers=phrases("提交审批、发起审批、提个审批、申请审批、提 审批、走个审批、发 审批"),
        )
    ]
