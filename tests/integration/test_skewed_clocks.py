"""The platform's clock and ours may differ by minutes; a plain 确认 must still count, and only for the prompt it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack import running_stack


@pytest.mark.parametrize("ahead_s", [120, -120], ids=["ours is ahead", "ours is behind"])
async def test_a_confirmation_counts_whatever_the_clocks_say(tmp_path: Path, valkey: str, ahead_s: int) -> None:
    """N-08, N-15: CreateTime is compared by the skew of its own callback, never with a clock of another machine."""
    ours = tmp_path / "our_clock"
    ours.write_text(str(ahead_s * 1000))
    person = ("wecom-main", "zhangsan")
    async with running_stack(
        tmp_path, valkey, offline=True, change=lambda settings: settings.model_copy(update={"test_clock": ours})
    ) as stack:
        await stack.say(*person, "建一个待办：交周报")
        await stack.seen(*person, "即将执行以下操作，请确认")
        assert "已建待办" in await stack.ask(*person, "确认")
        assert len(await stack.rows("SELECT id FROM todo")) == 1
