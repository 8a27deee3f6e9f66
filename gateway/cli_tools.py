"""``yizhan tools list|show|try``: the tools of a deployment, what one takes, and one call tried from the command line."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from agent.protocol import Capability
from config.schema import Settings, Tenant
from gateway import cli_texts as texts
from gateway.cli_start import CommandEnds, config_parent, settings_from

_CAPABILITY = Capability(can_push=True, can_card=False, can_menu=False)


def register(subparsers: Any) -> None:
    """Adds ``tools list``, ``tools show`` and ``tools try``."""
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
    """0; 2 for an unknown tenant."""
    settings, tenant = _place(args)
    tools = _tools(settings, tenant)
    if args.json:
        rows = [
            {"name": t.name, "class": t.tool_class, "confirms": t.needs_confirmation, "roles": sorted(t.roles)} for t in tools
        ]
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    for tool in tools:
        print(texts.TOOL_LINE.format(**_shown(tool) | {"description": tool.description.splitlines()[0]}))
    return 0


def run_show(args: argparse.Namespace) -> int:
    """0, 1 for an unknown tool, 2 for an unknown tenant."""
    settings, tenant = _place(args)
    tool = next((item for item in _tools(settings, tenant) if item.name == args.name), None)
    if tool is None:
        raise CommandEnds(texts.TOOL_UNKNOWN.format(name=args.name), 1)
    risk = texts.TOOL_HIGH_RISK if tool.risk == "high" else ""
    print(texts.TOOL_SHOWN.format(**_shown(tool), risk=risk, timeout_s=tool.timeout_s))
    print(json.dumps(tool.parameters, ensure_ascii=False, indent=2))
    return 0


def run_try(args: argparse.Namespace) -> int:
    """0 when the call did what it says, 1 when it was refused or failed, 2 for an unknown tenant or account."""
    settings, tenant = _place(args)
    account = args.account or next((item.id for item in tenant.accounts), None)
    if account is None or all(item.id != account for item in tenant.accounts):
        raise CommandEnds(texts.TOOL_NO_ACCOUNT, 2)
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
        agreed = False
        try:
            agreed = args.yes or await asyncio.to_thread(_ask)
        finally:  # who leaves with Ctrl-C has not agreed: nothing is left waiting
            print(await tools.executor.decide_here(outcome.prompt.action_id, args.user, agreed=agreed))
        return 0 if agreed and (await tools.executor.status(outcome.prompt.action_id)) == "succeeded" else 1
    finally:
        await session.close()
        await database.close()


def _ask() -> bool:
    """Only a person at a terminal can agree; a pipe never does."""
    if not sys.stdin.isatty():
        print(texts.TOOL_MUST_AGREE, file=sys.stderr)
        return False
    return input(texts.TOOL_AGREE).strip().lower() == "yes"


def _place(args: argparse.Namespace) -> tuple[Settings, Tenant]:
    settings = settings_from(args)
    tenant = settings.tenant(args.tenant) if args.tenant else next(iter(settings.tenants), Tenant())
    if tenant is None:
        raise CommandEnds(texts.TOOL_NO_TENANT.format(tenant=args.tenant), 2)
    return settings, tenant


def _shown(tool: Any) -> dict[str, str]:
    return {
        "name": tool.name,
        "title": tool.title,
        "kind": texts.TOOL_CLASSES[tool.tool_class],
        "ask": texts.TOOL_ASKS if tool.needs_confirmation else texts.TOOL_RUNS,
        "who": "、".join(sorted(tool.roles)) or (texts.TOOL_EVERYBODY if tool.public else texts.TOOL_EMPLOYEES),
        "description": tool.description,
    }


def _tools(settings: Settings, tenant: Tenant) -> list[Any]:
    from tools.assembly import builtin_tools, tenant_tools

    found = {tool.name: tool for tool in [*builtin_tools(), *tenant_tools(settings, tenant)]}
    return [found[name] for name in sorted(found) if name not in tenant.tools.disabled]
