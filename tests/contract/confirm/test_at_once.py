"""Writes of several processes at one moment: what each looks at before it writes, the others may be changing (N-15, C12)."""

from __future__ import annotations

import asyncio

from sqlalchemy import select

from config.columns import table_of
from tests.contract.confirm.world import World
from tools import texts
from tools.models import Reminder, Todo


async def test_one_call_published_twice_at_once_waits_once(world: World) -> None:
    """重新发起 in two processes: whichever commits last replaces the other, so one wish is never confirmed twice."""
    await world.propose()
    world.clock.advance(601)
    for _ in range(5):
        both = [await world.open().confirm.reissue(world.actor()) for _ in range(2)]
        await asyncio.gather(*map(world.store, both))
        assert (await world.states()).count("pending") == 1
        world.clock.advance(601)


async def test_wrong_codes_sent_at_once_are_all_counted(world: World) -> None:
    """N-15: a code is not found by trying several at the same time."""
    prompt = await world.propose("wipe", host="db-1")
    code = (await world.row(prompt.action_id)).code
    wrong = [str(number) for number in range(5000, 5006) if str(number) != code][:5]
    answers = await asyncio.gather(*(world.answer(f"确认 1 {guess}", key=guess) for guess in wrong))
    assert sorted(answers).count(texts.WRONG_CODE) == 4
    assert (await world.row(prompt.action_id)).status == "withdrawn"


async def test_things_made_at_once_have_numbers_of_their_own(world: World) -> None:
    """A number names one to-do and one reminder of a person, whoever ran the actions that made them."""
    at = "2023-11-16T09:00:00+08:00"
    made = [await world.propose("todo_create", title=f"事 {number}", remind_at=at) for number in range(4)]
    made += [await world.propose("reminder_create", text=f"会 {number}", at=at) for number in range(4)]
    for prompt in made:
        await world.hear(f"确认 {prompt.number}")
    await asyncio.gather(*(world.open().executor.execute(prompt.action_id) for prompt in made))
    for table, count in ((table_of(Todo), 4), (table_of(Reminder), 8)):
        numbers = await world.database.read(lambda c, table=table: c.execute(select(table.c.number)).scalars().all())  # type: ignore[misc]
        assert sorted(numbers) == list(range(1, count + 1))


async def test_what_was_deleted_while_it_was_finished_stays_deleted(world: World) -> None:
    """Two actions about one to-do: whichever comes second sees what the first has done."""
    todo = table_of(Todo)
    for number in range(1, 6):
        made = await world.propose("todo_create", title=f"事 {number}")
        await world.answer(f"确认 {made.number}")
        both = [await world.propose(name, number=number) for name in ("todo_delete", "todo_finish")]
        for prompt in both:
            await world.hear(f"确认 {prompt.number}")
        await asyncio.gather(*(world.open().executor.execute(prompt.action_id) for prompt in both))
        query = select(todo.c.status).where(todo.c.number == number)
        assert await world.database.read(lambda c, query=query: c.execute(query).scalar_one()) == "deleted"  # type: ignore[misc]
