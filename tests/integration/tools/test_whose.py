"""Whose things they are: tenants beside each other, subjects of every kind, links of one owner (N-12, N-13, N-24)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from config.columns import table_of
from config.schema import Listen, Settings, Tenant, ToolSettings
from memory.keys import conversation_id
from tests.fakes.channel import wecom_account
from tests.integration.tools.office import PUSH, Office
from tools.assembly import open_tools
from tools.builtin.todo import todo_page
from tools.context import Place
from tools.models import Todo


def _double(office: Office) -> None:
    """A second company in the same deployment, with an account of its own and an employee of the same id."""
    other = Tenant(id="other", accounts=(wecom_account("other-main"),))
    settings = Settings(
        data_dir=office.settings.data_dir,
        tenants=(*office.settings.tenants, other),
        http=Listen(public_url="https://bot.example.com"),
    )
    office.tools = open_tools(settings, office.clock, office.database, office.outbox, lambda _: PUSH)


async def test_n_13_two_companies_with_the_same_user_id(office: Office) -> None:
    """N-13, R-39: everything is looked up by tenant: the other company's zhangsan sees, finishes and links to nothing."""
    _double(office)
    await office.do("todo_create", title="甲公司的事")
    where = conversation_id("other", "other-main", "single", "zhangsan")
    stranger = office.tools.contexts.of(Place("other", "other-main", where, "s1", "zhangsan", "wecom_userid"), capability=PUSH)
    assert (await office.call("todo_list", stranger)).summary == "没有未完成的待办。"
    assert (await office.call("todo_finish", stranger, number=1)).status == "denied"
    assert await office.tools.confirm.list_text("other", where) == "现在没有等你确认的操作。"
    assert (await office.call("todo_list")).summary.startswith("未完成的待办共 1 项")


@pytest.mark.parametrize("id_type", ["open_id", "external_userid"])
async def test_n_12_every_kind_of_customer_is_denied_by_default(office: Office, id_type: Any) -> None:
    """N-12: followers and external contacts are customers, also with an id that has roles as an employee's."""
    where = conversation_id("acme", "wecom-main", "single", "zhangsan")
    customer = office.tools.contexts.of(Place("acme", "wecom-main", where, "s1", "zhangsan", id_type), capability=PUSH)
    assert customer.subject_kind == "customer"
    assert customer.roles == frozenset()
    assert office.tools.registry.offered(customer) == []
    for tool in ("todo_list", "server_status", "wiki_page_list", "send_message"):
        assert (await office.call(tool, customer)).status in ("denied", "invalid")


async def test_n_24_links_are_128_bit_expire_and_open_one_owners_todo(office: Office) -> None:
    """N-24: 22 letters of chance each, none alike, stored only as a fingerprint; a link opens its own to-do and ends."""
    links = []
    for number in range(5):
        said = await office.do("todo_create", title=f"事{number}")
        links += re.findall(r"https://bot\.example\.com/t/([A-Za-z0-9_-]{22})$", said)
    assert len(set(links)) == 5
    rows = await office.database.read(lambda c: c.execute(select(table_of(Todo))).all())
    assert not [link for link in links if link in str(rows)]
    for number, link in enumerate(links):
        page = await todo_page(office.database, office.clock, link) or ""
        assert [f"事{other}" in page for other in range(5)] == [other == number for other in range(5)]
    office.clock.advance(7 * 86_400)
    assert [await todo_page(office.database, office.clock, link) for link in links] == [None] * 5


async def test_n_24_without_a_public_address_no_text_has_a_link(tmp_path: Path, database: Any) -> None:
    """N-24: neither creating, listing nor finishing offers one while public_url is unset."""
    office = Office(tmp_path, database, ToolSettings(), public_url=None)
    said = [await office.do("todo_create", title="周报"), (await office.call("todo_list")).summary]
    said.append(await office.do("todo_finish", number=1))
    assert not [text for text in said if "http" in text or "/t/" in text]
