"""Random walks through everything that can happen to actions; whatever the order, nothing runs twice, unasked or unseen."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select

from gateway.outbox_states import ROWS
from tests.contract.confirm.world import CARD, World
from tools.decided import Answer, Prompt
from tools.proposals import ACTIONS

STEPS = 80
_HOSTS = ("a", "b", "c", "d", "e", "f", "g", "h")


class Walk:
    """One person, one colleague, two processes and a clock, moved by a seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.dice = random.Random(seed)
        self.prompts: list[Prompt] = []
        self.unsent: list[Prompt] = []
        self.drafts: list[Any] = []
        self.granted: set[str] = set()
        self.to_run: list[str] = []
        self.log: list[str] = []

    async def go(self) -> None:
        """All steps, and the end: time passes and whoever died is taken over."""
        often = [
            self.propose,
            self.propose,
            self.publish,
            self.publish,
            self.deliver,
            self.deliver,
            self.word,
            self.word,
            self.execute,
        ]
        seldom = [self.foreign, self.click, self.change, self.bring_back, self.stop, self.die, self.wait, self.reap]
        moves: list[Callable[[], Awaitable[None]]] = [*often, *often, *seldom]
        for _ in range(STEPS):
            move = self.dice.choice(moves)
            self.log.append(move.__name__)
            await move()
            await self.holds()
        self.world.clock.advance(3600)
        for _ in range(3):
            await self.die()
            await self.reap()
        assert set(await self.world.states()) <= {
            "draft", "succeeded", "failed", "rejected", "expired", "withdrawn", "superseded", "needs_human",
        }  # fmt: skip
        await self.holds()

    async def holds(self) -> None:
        """What is true at every moment."""
        keys = [key for key, _ in self.world.ran]
        assert len(keys) == len(set(keys)), self.log
        assert {key.removeprefix("act:") for key in keys} <= self.granted, self.log
        rows = await self.world.database.read(lambda c: c.execute(select(ACTIONS)).all())
        waiting = [row.args_digest for row in rows if row.status == "pending"]
        assert len(waiting) == len(set(waiting)), self.log
        numbers = [row.number for row in rows if row.status == "pending"]
        assert len(numbers) == len(set(numbers)), self.log
        by_id = {row.id: row for row in rows}
        for key, arguments in self.world.ran:
            assert f"主机：“{arguments['host']}”" in by_id[key.removeprefix("act:")].prompt_text, self.log

    async def propose(self) -> None:
        """A turn drafts a call; it is published later, or never."""
        tool, host = self.dice.choice(("deploy",) * 5 + ("wipe",)), self.dice.choice(_HOSTS)
        outcome = await self.world.open().registry.call(self.world.context(CARD), tool, {"host": host})
        if outcome.prompt is not None:
            self.drafts.append(outcome)

    async def publish(self) -> None:
        """The turn's transaction."""
        if self.drafts:
            outcome = self.drafts.pop(self.dice.choice((-1, -1, 0)))
            await self.world.store(outcome)
            self.unsent.append(outcome.prompt)

    async def deliver(self) -> None:
        """A prompt arrives, unless it was called off."""
        if self.unsent:
            prompt = self.unsent.pop(self.dice.choice((-1, 0)))
            await self.world.sent((ROWS.c.action_id == prompt.action_id) & (ROWS.c.status == "pending"))
            self.prompts.append(prompt)

    async def word(self) -> None:
        """zhangsan types something; a code only when they read one."""
        number = self.dice.choice(self.prompts[-2:]).number if self.prompts else 1
        yes, no = ("确认", "好的", f"确认 {number}", f"确认 {number}"), ("取消", "全部取消", f"取消 {number}", "全部确认")
        said = self.dice.choice(no if self.dice.random() < 0.2 else yes)
        if self.prompts and self.dice.random() < 0.3:
            row = await self.world.row(self.prompts[-1].action_id)
            said = f"确认 {row.number} {row.code or 1234}"
        await self.decided(await self.world.hear(said, tools=self.world.open()))

    async def foreign(self) -> None:
        """A colleague types the same; nothing may come of it."""
        for said in ("确认", "好的", "确认 1", "全部取消", "取消 1"):
            assert (await self.world.hear(said, user="lisi")).execute is None

    async def click(self) -> None:
        """A button of any card ever shown, by its person or by another."""
        cards = [prompt for prompt in self.prompts if prompt.card is not None]
        if cards:
            card = self.dice.choice(cards).card or {}
            who = self.dice.choice(("zhangsan", "zhangsan", "lisi"))
            key = self.dice.choice(card["button_list"])["key"]
            found = await self.world.open().confirm.decide_card(self.world.actor(who, key=f"c{len(self.log)}"), key)
            assert who == "zhangsan" or found.execute is None
            await self.decided(found)

    async def change(self) -> None:
        """改成…: another call in place of the one that waits."""
        found = await self.world.hear("改成3台")
        if found.edit is not None:
            changed = {**found.edit.arguments, "count": self.dice.randrange(3, 9)}
            edit = found.edit
            again = await self.world.tools.confirm.propose_again(self.world.actor(), edit.tool, changed, edit.id)
            self.drafts += [again] if again.prompt is not None else []

    async def bring_back(self) -> None:
        """重新发起."""
        found = await self.world.open().confirm.reissue(self.world.actor())
        if found.prompt is not None:
            self.drafts.append(found)

    async def stop(self) -> None:
        """停止."""
        actor = self.world.actor()
        await self.world.tools.confirm.stop(actor.tenant_id, actor.conversation_id, actor.person)

    async def execute(self) -> None:
        """Somebody begins what was confirmed, perhaps the second one to try."""
        if self.to_run:
            await self.world.open().executor.execute(self.dice.choice(self.to_run[-2:]))

    async def die(self) -> None:
        """A process that had begun dies: it may or may not have had its effect."""
        waiting = (ACTIONS.c.status == "confirmed", ACTIONS.c.id.in_(self.to_run))
        ids = await self.world.database.read(lambda c: c.execute(select(ACTIONS.c.id, ACTIONS.c.args_json).where(*waiting)).all())
        if ids and self.dice.random() < 0.5:
            gone = {"status": "executing", "lease_owner": "dead", "lease_until_ms": 1}
            await self.world.database.write(lambda c: c.execute(ACTIONS.update().where(ACTIONS.c.id == ids[0].id).values(**gone)))

    async def wait(self) -> None:
        """Seconds, minutes, or too long; rarely somebody sets the clock."""
        self.world.clock.advance(self.dice.choice((1, 1, 5, 30, 60, 119, 601, -2)))

    async def reap(self) -> None:
        """The reaper of one process or another."""
        await self.world.open().executor.reap()

    async def decided(self, found: Answer) -> None:
        """What was confirmed may run from now on; a prompt that is shown again is seen again."""
        if found.execute is not None:
            row = await self.world.row(found.execute)
            seen = await self.world.database.read(lambda c: self.world.outbox.delivered(c, row.id))
            assert seen, self.log
            self.granted.add(found.execute)
            self.to_run.append(found.execute)


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_runs_twice_unasked_or_unseen(world: World, seed: int) -> None:
    """C12 C15 C16 C25 N-07 N-15 N-18 N-27: eighty random steps each; the seed says which."""
    await Walk(world, seed).go()
