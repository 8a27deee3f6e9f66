"""``yizhan tools list|show|try``: the tools of a deployment, what one takes, and one call tried from the command line."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from agent.protocol import Capability
from config.schema import Settings, Tenant

_CLASSES = {"read": "查询", "operation": "操作", "script": "脚本"}
_CAPABILITY = Capability(can_push=True, can_card=False, can_menu=False)


def register(subparsers: Any) -> None:
    """Adds ``tools list``, ``tools show`` and ``tools try``."""
    from gateway.cli import config_parent

    parser = subparsers.add_parser("tools", help="查看和试用工具", description="列出工具，查看一个工具的参数，或试着调用一次。")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    shown = actions.add_parser("list", parents=[config_parent()], help="列出工具")
    shown.add_argument("--tenant", metavar="ID", help="哪个租户（默认第一个）")
    shown.add_argument("--json", action="store_true", help="输出 JSON")
    shown.set_defaults(run=run_list)
    one = actions.add_parser("show", parents=[config_parent()], help="一个工具的说明和参数")
    one.add_argument("name", metavar="TOOL")
    one.add_argument("--tenant", metavar="ID", help="哪个租户（默认第一个）")
    one.set_defaults(run=run_show)
    tried = actions.add_parser("try", parents=[config_parent()], help="调用一次；会改东西的先问")
    tried.add_argument("name", metavar="TOOL")
    tried.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help='参数，例如 \'{"title": "周报"}\'')
    tried.add_argument("--tenant", metavar="ID", help="哪个租户（默认第一个）")
    tried.add_argument("--account", metavar="ID", help="以哪个账号（默认租户的第一个）")
    tried.add_argument("--user", metavar="ID", default="cli", help="以谁的身份（默认 cli，没有任何角色）")
    tried.add_argument("--yes", action="store_true", help="不问，直接确认")
    tried.set_defaults(run=run_try)


def run_list(args: argparse.Namespace) -> int:
    """0, or 2 for an unknown tenant."""
    settings, tenant = _place(args)
    if tenant is None:
        return 2
    tools = _tools(settings, tenant)
    if args.json:
        rows = [
            {"name": t.name, "class": t.tool_class, "confirms": t.needs_confirmation, "roles": sorted(t.roles)} for t in tools
        ]
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    for tool in tools:
        ask = "先确认" if tool.needs_confirmation else "直接执行"
        who = "、".join(sorted(tool.roles)) or ("所有人" if tool.public else "员工")
        print(f"{tool.name}  {tool.title}  {_CLASSES[tool.tool_class]}，{ask}  {who}  {tool.description.splitlines()[0]}")
    return 0


def run_show(args: argparse.Namespace) -> int:
    """0, 1 for an unknown tool, 2 for an unknown tenant."""
    settings, tenant = _place(args)
    if tenant is None:
        return 2
    tool = next((item for item in _tools(settings, tenant) if item.name == args.name), None)
    if tool is None:
        print(f"没有工具 {args.name}，`yizhan tools list` 列出全部", file=sys.stderr)
        return 1
    print(f"{tool.name}（{tool.title}）\n{tool.description}")
    risk = "，高风险（要确认码）" if tool.risk == "high" else ""
    print(f"类别：{_CLASSES[tool.tool_class]}，{'先确认' if tool.needs_confirmation else '直接执行'}{risk}")
    print(f"谁能用：{'、'.join(sorted(tool.roles)) or ('所有人' if tool.public else '员工')}")
    print(f"超时：{tool.timeout_s:g} 秒")
    print(json.dumps(tool.parameters, ensure_ascii=False, indent=2))
    return 0


def run_try(args: argparse.Namespace) -> int:
    """0 when the call did what it says, 1 when it was refused or failed, 2 for an unknown tenant or account."""
    settings, tenant = _place(args)
    if tenant is None:
        return 2
    account = args.account or next((item.id for item in tenant.accounts), None)
    if account is None or all(item.id != account for item in tenant.accounts):
        print("没有这个账号；工具总是以某个账号里的某个人的身份运行", file=sys.stderr)
        return 2
    return asyncio.run(_try(settings, tenant, account, args))


async def _try(settings: Settings, tenant: Tenant, account: str, args: argparse.Namespace) -> int:
    from config.clock import Clock
    from config.database import open_database
    from gateway.channels import open_channels, open_session
    from gateway.directory import Directory
    from gateway.outbox import SqlOutbox
    from memory.keys import conversation_id
    from tools.assembly import open_tools
    from tools.context import Place

    clock, database, session = Clock(settings.test_clock), open_database(settings.sqlalchemy_url), open_session()
    try:
        channels = open_channels(settings, session, None, clock)
        outbox = SqlOutbox(channels.by_account, clock, settings.limits)
        tools = open_tools(settings, clock, database, outbox, lambda _: _CAPABILITY, Directory(channels.clients, clock))
        where = conversation_id(tenant.id, account, "single", args.user)
        id_type = "wecom_userid" if channels.by_account[account].platform == "wecom" else "open_id"
        place = Place(tenant.id, account, where, "cli", args.user, id_type)
        outcome = await tools.registry.call(tools.contexts.of(place), args.name, args.arguments)
        await database.write(lambda c: [write(c) for write in outcome.writes] and None)
        if outcome.prompt is None:
            print(outcome.summary)
            return 0 if outcome.status == "ok" else 1
        print(outcome.prompt.text)
        agreed = args.yes or await asyncio.to_thread(_ask)
        text = await tools.executor.decide_here(outcome.prompt.action_id, args.user, agreed=agreed)
        print(text)
        return 0 if agreed and (await tools.executor.status(outcome.prompt.action_id)) == "succeeded" else 1
    finally:
        await session.close()
        await database.close()


def _ask() -> bool:
    """Only a person at a terminal can agree; a pipe never does."""
    if not sys.stdin.isatty():
        print("要确认才会执行：在终端里运行，或加 --yes", file=sys.stderr)
        return False
    return input("执行吗？输入 yes：").strip().lower() == "yes"


def _place(args: argparse.Namespace) -> tuple[Settings, Tenant | None]:
    from gateway.cli import settings_from

    settings = settings_from(args)
    tenant = settings.tenant(args.tenant) if args.tenant else next(iter(settings.tenants), None)
    if tenant is None and not args.tenant:
        tenant = Tenant()
    if tenant is None:
        print(f"设置里没有租户 {args.tenant}", file=sys.stderr)
    return settings, tenant


def _tools(settings: Settings, tenant: Tenant) -> list[Any]:
    from tools.assembly import builtin_tools, tenant_tools

    found = {tool.name: tool for tool in [*builtin_tools(), *tenant_tools(settings, tenant)]}
    return [found[name] for name in sorted(found) if name not in tenant.tools.disabled]
