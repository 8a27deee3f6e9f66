"""Work known to be long: a receipt at once, the work in the worker, the result pushed to the person who asked (S001-36)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from config.schema import ScriptPreset, Settings
from gateway.worker import work
from tests.fakes.model_server import call
from tests.stack import Stack, running_stack

ASKER = ("wecom-main", "zhangsan")
RECEIPT = "好的，正在处理，完成后通知你。"


def _with_scripts(settings: Settings) -> Settings:
    presets = (
        ScriptPreset(id="long-report", description="长报告", argv=("/bin/echo", "报告好了"), read_only=True, timeout_s=120),
        ScriptPreset(id="long-change", description="长改动", argv=("/bin/echo", "改好了"), timeout_s=120),
    )
    tenant = settings.tenants[0]
    tools = tenant.tools.model_copy(update={"scripts": presets})
    return settings.model_copy(update={"tenants": (tenant.model_copy(update={"tools": tools}),)})


@pytest.fixture
async def long_stack(tmp_path: Path, valkey: str) -> AsyncIterator[Stack]:
    """A gateway and a worker in this loop, with two presets that count as long."""
    async with running_stack(tmp_path, valkey, change=_with_scripts) as stack:
        stop = asyncio.Event()
        worker = asyncio.create_task(work(stack.settings, stop))
        try:
            yield stack
        finally:
            stop.set()
            await worker


async def test_a_long_read_is_queued_with_a_receipt_and_its_result_is_pushed(long_stack: Stack) -> None:
    """S001-36, S001-39, overview §2: known long → acknowledged now, a job of this person and session, the result by push."""
    long_stack.model.then(call("run_script", {"preset": "long-report"}))
    assert await long_stack.ask(*ASKER, "出一份长报告") == RECEIPT
    pushed = await long_stack.seen(*ASKER, "报告好了")
    assert pushed["via"] == "push"
    (job,) = await long_stack.rows("SELECT name, user_id, session_id, status, args FROM job")
    (session,) = await long_stack.rows("SELECT session_id FROM conversation WHERE peer_id = 'zhangsan'")
    assert (job["name"], job["user_id"], job["session_id"]) == ("tool", "zhangsan", session["session_id"])
    notes = await long_stack.rows("SELECT text FROM message WHERE role = 'note'")
    assert len(notes) == 1
    assert "报告好了" in notes[0]["text"]
    assert len(long_stack.model.requests) == 1


async def test_a_long_write_runs_in_the_worker_after_its_confirmation(long_stack: Stack) -> None:
    """A confirmed action known to be long: nothing runs before the word; then a receipt, and the outcome by push, once."""
    long_stack.model.then(call("run_script", {"preset": "long-change"}))
    await long_stack.ask(*ASKER, "做那个长改动")
    await long_stack.seen(*ASKER, "即将执行以下操作，请确认")
    assert await long_stack.rows("SELECT id FROM tool_audit WHERE ok = 1") == []
    assert await long_stack.ask(*ASKER, "确认") == RECEIPT
    assert (await long_stack.seen(*ASKER, "改好了"))["via"] == "push"
    (job,) = await long_stack.rows("SELECT name, status FROM job")
    assert job["name"] == "action"
    (action,) = await long_stack.rows("SELECT status FROM pending_action")
    assert action["status"] == "succeeded"
