"""The outbox on every database: keys, states, the passive race, pages, pulling, flushing."""

from __future__ import annotations

import asyncio

from gateway.channel import Part
from gateway.outbox_states import ROWS
from gateway.texts import CONTINUE_HINT
from tests.contract.outbox.world import World


async def test_known_key_stores_nothing_and_names_the_group(world: World) -> None:
    """G-16, N-03: one idempotency key, one group, whatever is put under it the second time."""
    first = await world.put("k1", "一" * 500)
    assert await world.put("k1", "别的") == first
    rows = await world.rows()
    assert [row["idempotency_key"] for row in rows] == ["k1:0", "k1:1", "k1:2"]
    assert {row["status"] for row in rows} == {"pending"}


async def test_two_writers_with_one_key_make_one_group(world: World) -> None:
    """G-16: two processes store the same answer at once; both are told the same group."""
    groups = await asyncio.gather(*(world.put("k1") for _ in range(8)))
    assert len(set(groups)) == 1
    assert len(await world.rows()) == 1


async def test_passive_answer_is_taken_once_and_given_again(world: World) -> None:
    """N-03: the HTTP response takes the answer once; a redelivery gets the same words again."""
    group = await world.put("k1", "答案", cause="inbound", cause_id="1", reserve_ms=5000)
    taken = await asyncio.gather(*(world.database.write(lambda c: world.outbox.take_passive(c, group)) for _ in range(4)))
    assert [part.text for part in taken if part] == ["答案"]
    again = await world.database.write(lambda c: world.outbox.give_again(c, group))
    assert again is not None
    assert again.text == "答案"
    row = (await world.rows(group))[0]
    assert (row["status"], row["via"]) == ("sent", "passive")


async def test_released_answer_is_not_given_passively(world: World) -> None:
    """N-03: after the hand-over to delivery a redelivery gets an empty acknowledgement."""
    group = await world.put("k1", reserve_ms=5000)
    await world.database.write(lambda c: world.outbox.release_passive(c, group))
    assert await world.states(group) == ["pending"]
    assert await world.database.write(lambda c: world.outbox.take_passive(c, group)) is None
    assert await world.database.write(lambda c: world.outbox.give_again(c, group)) is None


async def test_a_part_that_cannot_go_passively_is_released(world: World) -> None:
    """N-03: taking a card for the HTTP response gives it to delivery instead."""
    group = await world.put("k1", "卡片", kind="template_card", data={"card": 1}, reserve_ms=5000)
    assert await world.database.write(lambda c: world.outbox.take_passive(c, group)) is None
    assert await world.states(group) == ["pending"]


async def test_reservation_runs_out(world: World) -> None:
    """N-03: a handler that died leaves its reservation; it is found once past."""
    kept = await world.put("k1", reserve_ms=60_000)
    lost = await world.put("k2", reserve_ms=1)
    end = asyncio.get_running_loop().time() + 5
    found: list[str] = []
    while not found and asyncio.get_running_loop().time() < end:
        found = await world.database.read(lambda c: world.outbox.expired_reservations(c, 10))
    assert found == [lost]
    assert kept != lost


async def test_without_push_everything_is_parked_page_by_page(world: World) -> None:
    """OA5-16: an Official Account without push parks; 继续 gives one labelled page at a time."""
    await world.can_push("pull")
    text = "甲" * 150 + "乙" * 150
    await world.put("k1", text, account_id="mp-main", user_id="o1", label="上周的报表怎么样", cause="inbound", cause_id="1")
    assert await world.states() == ["parked", "parked"]
    where = (await world.rows())[0]["conversation_id"]
    first = await world.database.write(lambda c: world.outbox.pull(c, where))
    second = await world.database.write(lambda c: world.outbox.pull(c, where))
    assert first is not None
    assert second is not None
    assert first.text.startswith("关于：上周的报表怎么样\n甲")
    assert (first.remaining, second.remaining) == (1, 0)
    assert await world.database.write(lambda c: world.outbox.pull(c, where)) is None
    again = await world.database.read(lambda c: world.outbox.pulled_again(c, second.key))
    assert again is not None
    assert again.text == second.text


async def test_two_slow_questions_are_labelled_apart(world: World) -> None:
    """OA5-16: two slow questions, two pulls, each answer under its own question."""
    await world.can_push("pull")
    for number, question in enumerate(("第一个问题，它很长很长很长很长很长很长很长", "第二个问题")):
        await world.put(f"k{number}", f"答{number}", account_id="mp-main", user_id="o1", label=question)
    where = (await world.rows())[0]["conversation_id"]
    texts = []
    for _ in range(2):
        part = await world.database.write(lambda c: world.outbox.pull(c, where))
        assert part is not None
        texts.append(part.text)
    assert texts == ["关于：第一个问题，它很长很长很长很长很长很长很…\n答0", "关于：第二个问题\n答1"]


async def test_passive_first_part_then_the_rest_is_parked(world: World) -> None:
    """N-03: an Official Account without push answers its first page in the response and offers the rest."""
    await world.can_push("pull")
    group = await world.put("k1", "甲" * 180 + "乙" * 30, account_id="mp-main", user_id="o1", reserve_ms=5000, label="问")
    part = await world.database.write(lambda c: world.outbox.take_passive(c, group))
    assert part is not None
    assert "关于" not in part.text
    assert part.text.startswith("甲")
    assert await world.states(group) == ["sent", "parked"]


async def test_too_many_parts_wait_behind_continue(world: World) -> None:
    """limits.max_parts: the rest is parked under the same group and offered; pulling a page releases its other parts."""
    await world.put("k1", "甲" * 1200)
    rows = await world.rows()
    assert [row["status"] for row in rows] == ["pending"] * 3 + ["parked"] * 4
    assert rows[2]["payload"]["text"] == CONTINUE_HINT
    page = await world.database.write(lambda c: world.outbox.pull(c, rows[0]["conversation_id"]))
    assert page is not None
    assert await world.states() == ["pending"] * 3 + ["sent"] + ["pending"] * 2 + ["parked"]


async def test_at_most_three_parked_answers_flush(world: World) -> None:
    """N-06: the person's next message lets three parked answers go; the rest stays behind 继续."""
    for number in range(5):
        await world.put(f"k{number}", "甲" * 300)
    parked = {"status": "parked", "park_reason": "window"}
    await world.database.write(lambda c: c.execute(ROWS.update().values(**parked)))
    where = (await world.rows())[0]["conversation_id"]
    assert await world.database.write(lambda c: world.outbox.flush_parked(c, where)) == 3
    assert await world.states() == ["pending"] * 6 + ["parked"] * 4
    assert await world.database.read(lambda c: world.outbox.parked_count(c, where)) == 4


async def test_newest_and_delivered_follow_what_went_out(world: World) -> None:
    """N-15: the newest outgoing message is the one that went out last, not the one stored last."""
    prompt = await world.put("p", "确认吗", action_id="a1", reserve_ms=5000)
    where = (await world.rows())[0]["conversation_id"]
    await world.put("n", "通知")
    assert await world.database.read(lambda c: world.outbox.newest(c, where)) is None
    assert not await world.database.read(lambda c: world.outbox.delivered(c, "a1"))
    part = await world.database.write(lambda c: world.outbox.take_passive(c, prompt))
    assert isinstance(part, Part)
    newest = await world.database.read(lambda c: world.outbox.newest(c, where))
    assert newest is not None
    assert (newest.action_id, newest.delivered, newest.sent_at_ms) == ("a1", True, world.clock.now_ms())
    assert await world.database.read(lambda c: world.outbox.delivered(c, "a1"))


async def test_prompt_is_withdrawn_before_it_went_out(world: World) -> None:
    """N-15: cancelling an action withdraws its prompt unless it was sent."""
    await world.put("p", "确认吗", action_id="a1")
    assert await world.database.write(lambda c: world.outbox.cancel_action_prompt(c, "a1")) == 1
    assert await world.states() == ["cancelled"]


async def test_a_label_is_quoted_without_markup(world: World) -> None:
    """N-16: a question full of markup is quoted as plain words; only our own renderer writes links."""
    await world.can_push("pull")
    await world.put("k1", "答案", account_id="mp-main", user_id="o1", label="<a href=x>**点我**</a>\n`rm`")
    where = (await world.rows())[0]["conversation_id"]
    part = await world.database.write(lambda c: world.outbox.pull(c, where))
    assert part is not None
    assert part.text.startswith("关于：")
    assert not set("<>*`") & set(part.text)
    assert part.text.endswith("\n答案")
