"""The tools' directory and approvals over real HTTP against the simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from config.clock import Clock
from config.demo import simulator_accounts
from config.schema import MpAccount, Settings, Tenant, WecomAccount
from gateway.channels import open_channels
from gateway.directory import Directory, approval_body
from scripts.simulator.accounts import parse_account
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World


@pytest.fixture
async def world(tmp_path: Path) -> World:
    """The simulated company."""
    accounts = {raw["id"]: parse_account(raw, "http://127.0.0.1:9") for raw in simulator_accounts("")}
    return World(accounts, Timekeeper(tmp_path / "clock"), "start", callback_timeout_s=0.2)


@pytest.fixture
async def directory(world: World, tmp_path: Path) -> AsyncIterator[Directory]:
    """A directory over the accounts' own API clients."""
    async with serving(world) as base, aiohttp.ClientSession() as session:
        accounts: list[WecomAccount | MpAccount] = []
        for raw in simulator_accounts(""):
            kind = WecomAccount if raw["platform"] == "wecom" else MpAccount
            known = {name: value for name, value in raw.items() if name in kind.model_fields}
            accounts.append(kind(**{**known, "api_base": base}))
        settings = Settings(data_dir=tmp_path, tenants=(Tenant(id="demo", accounts=tuple(accounts)),))
        yield Directory(open_channels(settings, session, None, Clock()).clients, Clock())


async def test_members(world: World, directory: Directory) -> None:
    """S001-46: names resolve through user/get and user/simplelist inside the visible range; nobody is nobody."""
    people = [person for person in world.people.of("wecom-main") if person.visible]
    first = people[0]
    member = await directory.member("wecom-main", first.user)
    assert member is not None
    assert (member.user_id, member.name) == (first.user, first.name)
    assert await directory.member("wecom-main", "nobody-here") is None
    same = [person.user for person in people if person.name == first.name]
    assert [one.user_id for one in await directory.members_named("wecom-main", first.name)] == same
    assert list(await directory.members_named("wecom-main", "没有这个人")) == []
    assert await directory.member("mp-main", first.user) is None
    assert list(await directory.members_named("mp-main", first.name)) == []


async def test_two_of_one_name_are_told_apart_by_department(directory: Directory) -> None:
    """The name of the department, not its number; the number only where the app is not told names."""
    several = [one.department for one in await directory.members_named("wecom-main", "张三")]
    assert len(several) == len(set(several)) == 2
    assert not any(one.isdigit() for one in several)


async def test_an_approval_is_handed_in(world: World, directory: Directory) -> None:
    """S001-46: what the person confirmed is in the application's controls."""
    creator = next(person.user for person in world.people.of("wecom-main") if person.visible)
    fields = [{"label": "标题", "value": "采购显示器"}, {"label": "说明", "value": "两台"}]
    application = {"template_id": "T1", "creator": creator, "title": "采购显示器", "fields": fields}
    number = await directory.submit_approval("wecom-main", application)
    stored = world.approvals[-1]
    assert stored["sp_no"] == number
    assert [item["value"]["text"] for item in stored["apply_data"]["contents"]] == ["采购显示器", "两台"]


def test_fields_without_a_control_of_their_own_go_into_the_last_text() -> None:
    """Nothing that was confirmed is lost."""
    detail = {"template_content": {"controls": [{"property": {"control": "Textarea", "id": "t", "title": [{"text": "事由"}]}}]}}
    fields = [{"label": "标题", "value": "a"}, {"label": "说明", "value": "b"}]
    body = approval_body({"template_id": "T", "creator": "u", "title": "a", "fields": fields}, detail)
    assert body["apply_data"]["contents"] == [{"control": "Textarea", "id": "t", "value": {"text": "a\nb"}}]
