"""Delivery when the platform says no, on every database: parking, alerts, pauses, pull, simpler forms, pace."""

from __future__ import annotations

import asyncio

from config.errors import Refused
from gateway import outbox_claims
from gateway.account_state import note_url_verified, url_verified_ms
from gateway.delivery_outcome import Alert
from gateway.outbox_pull import stuck_notice
from tests.contract.outbox.world import World
from tests.fakes.channel import answered

BLOCKED_IP = answered(60020, "not allow to access from your ip, hint: [1], from ip: 203.0.113.7, more info at https://x")


async def test_blocked_ip_parks_after_one_call_and_resumes(world: World) -> None:
    """DEL-01, DEL-03: 60020 is one call, parked, an alert with the IP through the robot; later delivered."""
    await world.put("k1", "答案")
    world.wecom.expect(BLOCKED_IP)
    delivery = world.delivery()
    await delivery.pass_once()
    assert len([call for call in world.wecom.calls if call[2].webhook is None]) == 1
    assert world.wecom.texts[0].startswith("【wecom-main】")
    assert "203.0.113.7" in world.wecom.texts[0]
    rows = await world.rows()
    assert (rows[0]["status"], rows[0]["park_reason"], rows[0]["errcode"]) == ("parked", "operator", 60020)
    await world.put("k2", "第二个答案")
    await delivery.pass_once()
    assert len([call for call in world.wecom.calls if call[2].webhook is None]) == 1
    where = rows[0]["conversation_id"]
    notice = await world.database.read(lambda c: stuck_notice(c, where, "wecom-main"))
    assert notice is not None
    world.clock.advance(61)
    await delivery.pass_once()
    assert world.wecom.probes == 1
    assert [text for text in world.wecom.texts if "答案" in text] == ["答案", "第二个答案"]
    assert await world.database.read(lambda c: stuck_notice(c, where, "wecom-main")) is None


async def test_closed_window_parks_and_the_next_message_delivers(world: World) -> None:
    """DEL-17, DEL-21: 45015 in a 200 body is parked, never sent; the person's next message delivers it."""
    await world.can_push("push")
    await world.put("k1", "答案", account_id="mp-main", user_id="o1", cause="push")
    world.mp.expect(answered(45015, "response out of time limit"))
    await world.delivery().pass_once()
    row = (await world.rows())[0]
    assert (row["status"], row["errcode"]) == ("parked", 45015)
    assert await world.database.write(lambda c: world.outbox.flush_parked(c, row["conversation_id"])) == 1
    await world.delivery().pass_once()
    assert world.mp.texts == ["答案"]


async def test_unauthorized_account_becomes_pull(world: World) -> None:
    """DEL-14: the first 48001 parks the answer, tells the admin once, and later answers are parked without a call."""
    await world.can_push("push")
    for number in range(2):
        await world.put(f"k{number}", f"答{number}", account_id="mp-main", user_id=f"o{number}", label="问")
    world.mp.expect(answered(48001, "api unauthorized"), answered(48001, "api unauthorized"))
    await world.delivery().pass_once()
    await world.put("k9", "答9", account_id="mp-main", user_id="o9", label="问")
    await world.delivery().pass_once()
    assert len(world.mp.calls) <= 2
    states = {row["idempotency_key"]: row["status"] for row in await world.rows()}
    assert [states[key] for key in ("k0:0", "k1:0", "k9:0")] == ["parked"] * 3
    assert sum("48001" in text and target.webhook is None for text, target in world.wecom.accepted) == 1
    where = (await world.rows())[0]["conversation_id"]
    page = await world.database.write(lambda c: world.outbox.pull(c, where))
    assert page is not None
    assert page.text == "关于：问\n答0"


async def test_quota_pauses_the_account(world: World) -> None:
    """45009: nothing of the account goes until it may again; nothing is lost, no attempt is used up."""
    await world.put("k1", "一", user_id="a")
    world.wecom.expect(answered(45009, "reach max api daily quota limit"))
    delivery = world.delivery()
    await delivery.pass_once()
    await world.put("k2", "二", user_id="b")
    await delivery.pass_once()
    assert world.wecom.texts[0].startswith("【wecom-main】平台说调用次数用完")
    world.clock.advance(61)
    await delivery.pass_once()
    assert {"一", "二"} <= set(world.wecom.texts)


async def test_unknown_member_is_told_and_not_retried(world: World) -> None:
    """DEL-12: errcode 0 with invaliduser, and 81013, are faults of this target only."""
    told = [
        answered(0, "ok", invalid_users=("ghost",)),
        answered(81013, "all invalid"),
        answered(0, "ok", invalid_users=("ghost",)),
    ]
    for number, users in enumerate((["ghost"], ["gone"], ["a", "ghost"])):
        await world.put(f"k{number}", "通知", user_id=users[0], target={"users": users})
        world.wecom.expect(told[number])
        await world.delivery().pass_once()
    world.clock.advance(60)
    await world.delivery().pass_once()
    rows = await world.rows()
    assert [(row["status"], row["errcode"]) for row in rows] == [("dead", 81013), ("dead", 81013), ("sent", 0)]
    assert rows[2]["errmsg"] == "invaliduser: ghost"
    assert len(world.wecom.calls) == 3


async def test_refused_card_becomes_text(world: World) -> None:
    """A card the platform refuses goes as its words, once."""
    await world.put("k1", "审批：请假", kind="template_card", data={"card": 1})
    world.wecom.expect(answered(42015, "invalid card"))
    await world.delivery().pass_once()
    assert world.wecom.texts == ["审批：请假"]
    assert [kind for kind, _, _ in world.wecom.calls] == ["template_card", "text"]
    assert await world.states() == ["sent"]


async def test_parked_rows_expire_with_a_record(world: World) -> None:
    """N-06: after limits.park_days a parked row is expired, and the row stays."""
    await world.can_push("pull")
    await world.put("k1", account_id="mp-main", user_id="o1")
    world.clock.advance(7 * 86_400 + 1)
    await world.delivery().pass_once()
    assert await world.states() == ["expired"]


async def test_paced_member_loses_nothing(world: World) -> None:
    """DEL-24: 40 pushes to one member: 30 in the first minute, the rest later, in order."""
    for number in range(40):
        await world.put(f"k{number}", f"第{number}条")
    delivery = world.delivery()
    await delivery.pass_once()
    assert len(world.wecom.texts) == 30
    assert not await world.database.read(lambda c: outbox_claims.has_due(c, world.clock.now_ms()))
    world.clock.advance(60)
    await delivery.pass_once()
    assert world.wecom.texts == [f"第{number}条" for number in range(40)]


async def test_used_up_window_is_known_beforehand(world: World) -> None:
    """The sixth customer-service message after the person's last act is parked without a call that must fail."""
    await world.can_push("push")
    await world.set_conversation(last_act_ms=world.clock.now_ms())
    for number in range(6):
        await world.put(f"k{number}", f"{number}", account_id="mp-main", user_id="o1", cause="push")
    world.clock.advance(1)
    await world.delivery().pass_once()
    assert len(world.mp.calls) == 5
    assert await world.states() == ["sent"] * 5 + ["parked"]
    await world.set_conversation(last_act_ms=world.clock.now_ms() + 1)
    world.clock.advance(1)
    where = (await world.rows())[0]["conversation_id"]
    await world.database.write(lambda c: world.outbox.flush_parked(c, where))
    await world.delivery().pass_once()
    assert await world.states() == ["sent"] * 6
    await world.put("late", "49 小时后", account_id="mp-main", user_id="o1", cause="push")
    world.clock.advance(49 * 3600)
    await world.delivery().pass_once()
    assert len(world.mp.calls) == 6


async def test_refused_file_becomes_words_and_refused_receiver_ends(world: World) -> None:
    """A file that cannot be read goes as a notice; a receiver that is none ends the row with its reason, no call made."""
    world.wecom.freeze_error = Refused("the file to send is not there", code="media_missing")
    await world.put("k1", "文件：周报", kind="file", data={"path": "/gone"})
    world.wecom.freeze_errors = 1
    await world.delivery().pass_once()
    assert world.wecom.texts == ["文件：周报"]
    world.wecom.freeze_error = Refused("this id belongs to a follower", code="wrong_id_type")
    world.wecom.freeze_errors = 1
    await world.put("k2", "通知", user_id="other")
    await world.delivery().pass_once()
    row = (await world.rows())[-1]
    assert row["status"] == "dead"
    assert row["errmsg"].startswith("wrong_id_type")
    assert len(world.wecom.calls) == 1


async def test_operators_hear_once_an_hour_of_each_kind(world: World) -> None:
    """DEL-03: one alert per kind, account and hour, to each operator and to the tenant's robot; two processes at once too."""
    alerts = world.delivery()._sender._alerts
    blocked, wrong = Alert("operator-60020", "出口 IP 被拒"), Alert("dead-45002", "内容太长")

    async def tell(alert: Alert) -> bool:
        return await world.database.write(lambda c: alerts.tell(c, "wecom-main", alert))

    assert [await tell(blocked), await tell(blocked), await tell(wrong)] == [True, False, True]
    world.clock.advance(3599)
    assert not await tell(blocked)
    world.clock.advance(2)
    assert await tell(blocked)
    rows = await world.rows()
    assert [row["cause"] for row in rows] == ["notice"] * 6
    assert [row["user_id"] for row in rows] == ["admin", "@alert"] * 3
    assert {row["target"]["webhook"] for row in rows if row["target"]} == {"@alert"}
    assert not await world.database.write(lambda c: alerts.tell(c, "nowhere", blocked))


async def test_an_alert_is_told_again_after_others_came_between(world: World) -> None:
    """DEL-03: trouble that comes back hours later is told again, though another kind was told in between."""
    alerts = world.delivery()._sender._alerts
    blocked, wrong = Alert("operator-60020", "出口 IP 被拒"), Alert("dead-45002", "内容太长")
    for alert in (blocked, wrong, blocked):
        world.clock.advance(2 * 3600)
        assert await world.database.write(lambda c, a=alert: alerts.tell(c, "wecom-main", a))  # type: ignore[misc]
    told = [row["payload"]["text"] for row in await world.rows() if row["user_id"] == "admin"]
    assert [text.partition("】")[2].strip() for text in told] == ["出口 IP 被拒", "内容太长", "出口 IP 被拒"]


async def test_notes_of_an_account_do_not_erase_each_other(world: World) -> None:
    """DEL-03, CB-04: an alert that was told is not forgotten because the platform checked the callback URL, nor the reverse."""
    alerts = world.delivery()._sender._alerts
    blocked, now = Alert("operator-60020", "出口 IP 被拒"), world.clock.now_ms()
    assert await world.database.write(lambda c: alerts.tell(c, "wecom-main", blocked))
    await world.database.write(lambda c: note_url_verified(c, "wecom-main", "acme", now))
    assert not await world.database.write(lambda c: alerts.tell(c, "wecom-main", blocked))
    assert await world.database.write(lambda c: alerts.tell(c, "wecom-main", Alert("dead-1", "别的")))
    assert await world.database.read(lambda c: url_verified_ms(c, "wecom-main")) == now


async def test_a_platform_that_does_not_answer_keeps_no_other_account_waiting(world: World) -> None:
    """DEL-01: probing an account in trouble goes on beside the deliveries of the others."""
    await world.put("k1", "答案")
    world.wecom.expect(BLOCKED_IP)
    delivery = world.delivery()
    await delivery.pass_once()
    world.wecom.probe_hold = asyncio.Event()
    world.clock.advance(61)
    await world.can_push("push")
    await world.put("k2", "别家的答案", account_id="mp-main", user_id="o1", cause="push")
    stop = asyncio.Event()
    running = asyncio.create_task(delivery.run(stop))
    async with asyncio.timeout(5):
        await world.wecom.probing.wait()
        await world.mp.entered.wait()
        stop.set()
        await running
    assert world.mp.texts == ["别家的答案"]
    assert "答案" not in world.wecom.texts
