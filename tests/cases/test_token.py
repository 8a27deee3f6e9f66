"""Area token, seen from outside: what the platform sees when tokens die. The rules themselves: integration/test_tokens.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.scenes import MEMBER, VERIFIED, changed_stack, outgoing, push, sends, with_accounts, words
from tests.stack import Stack

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
FETCH = {"wecom-main": "gettoken", "mp-main": "stable_token"}


async def fetches(stack: Stack, account: str) -> int:
    """How many tokens the platform gave out."""
    return len([call for call in await stack.calls(account, FETCH[account]) if call["errcode"] in (0, None)])


async def opened(stack: Stack, who: tuple[str, str]) -> None:
    """A message each way, so that a token is held."""
    await stack.ask(*who, "帮助")
    await push(stack, who[0], [who[1]], "第一条", "first")
    await stack.seen(*who, "第一条")


@pytest.mark.parametrize("who", [MEMBER, VERIFIED], ids=lambda who: who[0])
@pytest.mark.parametrize("fault", ["token_revoked", "token_expired"])
async def test_tok_01_12_a_dead_token_is_replaced_once(stack: Stack, who: tuple[str, str], fault: str) -> None:
    """TOK-01, TOK-12: 40014, 40001 or 42001 once: one fetch, one extra call, the person sees one message."""
    await opened(stack, who)
    before = await fetches(stack, who[0])
    await stack.post("faults", name=fault, account=who[0])
    await push(stack, who[0], [who[1]], "第二条", "second")
    await stack.seen(*who, "第二条")
    assert await fetches(stack, who[0]) == before + 1
    assert [call["errcode"] == 0 for call in await sends(stack, who[0], "第二条")] == [False, True]
    assert (await stack.texts(*who)).count("第二条") == 1


@pytest.mark.parametrize("who", [MEMBER, VERIFIED], ids=lambda who: who[0])
async def test_tok_02_a_token_refused_for_ever_ends(stack: Stack, who: tuple[str, str]) -> None:
    """TOK-02: two sends, at most one more fetch, the message is kept and the operator told; nothing loops."""
    await opened(stack, who)
    before = await fetches(stack, who[0])
    await stack.post("faults", name="token_refused", account=who[0])
    await push(stack, who[0], [who[1]], "第二条", "second")

    async def parked() -> bool:
        rows = [row for row in await outgoing(stack, "status = 'parked'") if "第二条" in words(row)]
        return [row["park_reason"] for row in rows] == ["operator"]

    await stack.until(parked)
    assert len(await sends(stack, who[0], "第二条")) <= 2
    asked = await stack.calls(who[0], FETCH[who[0]])
    forced = [call for call in asked if (call["body"] or {}).get("force_refresh")]
    assert (len(forced) <= 1, len(asked) <= before + (1 if who[0] == "wecom-main" else 2)) == (True, True)

    async def told() -> bool:
        return bool((await stack.get("state"))["groups"])

    await stack.until(told)
    await stack.post("faults", clear=True)
    await stack.advance(600)
    await stack.seen(*who, "第二条", 30)
    assert (await stack.texts(*who)).count("第二条") == 1


async def test_tok_05_06_07_many_messages_meet_the_dead_token_at_once(stack: Stack) -> None:
    """TOK-05, TOK-06, TOK-07: twelve people's messages at the same moment: one fetch, all arrive."""
    await opened(stack, MEMBER)
    before = await fetches(stack, "wecom-main")
    await stack.post("faults", name="token_revoked", account="wecom-main")
    users = ["lisi", "wangwu", "zhaoliu", *(f"m{number}" for number in range(9))]
    for user in users:
        await stack.post("people", account="wecom-main", user=user)
    await push(stack, "wecom-main", users, "同时", "many")
    for user in users:
        await stack.seen("wecom-main", user, "同时")
    assert await fetches(stack, "wecom-main") == before + 1


@pytest.mark.parametrize("who", [MEMBER, VERIFIED], ids=lambda who: who[0])
async def test_tok_07_uploads_meet_the_dead_token(stack: Stack, who: tuple[str, str]) -> None:
    """TOK-07: four pictures at once while the token is dead: four uploads succeed, one fetch, all four are seen."""
    await opened(stack, who)
    before = await fetches(stack, who[0])
    await stack.post("faults", name="token_revoked", account=who[0])
    for number in range(4):
        message = {"kind": "image", "content_base64": PIXEL, "file_name": f"图{number}.png"}
        await push(stack, who[0], [who[1]], "", f"picture{number}", message=message)

    async def seen() -> bool:
        return len([entry for entry in await stack.inbox(*who) if entry["kind"] == "image"]) == 4

    await stack.until(seen)
    assert await fetches(stack, who[0]) == before + 1


@pytest.mark.parametrize("who", [MEMBER, VERIFIED], ids=lambda who: who[0])
async def test_tok_09_an_old_token_is_renewed_before_it_is_used(stack: Stack, who: tuple[str, str]) -> None:
    """TOK-09: 7300 s later the token is fetched first; the platform refuses nothing."""
    await opened(stack, who)
    await stack.advance(7300)
    await push(stack, who[0], [who[1]], "两小时后", "later")
    await stack.seen(*who, "两小时后")
    assert [call["errcode"] for call in await sends(stack, who[0])] == [0, 0]
    assert len([c for c in await stack.calls(who[0], FETCH[who[0]]) if c["errcode"] in (0, None)]) >= 2


async def test_tok_10_a_platform_that_kills_every_token_at_once_is_survived(stack: Stack) -> None:
    """TOK-10: another deployment takes the token away before each send: every message still arrives, no forced loop."""
    await opened(stack, VERIFIED)
    for number in range(3):
        await stack.post("faults", name="token_revoked", account="mp-main")
        await push(stack, VERIFIED[0], [VERIFIED[1]], f"第{number}次", f"k{number}")
        await stack.seen(*VERIFIED, f"第{number}次")
    calls = await stack.calls("mp-main", "stable_token")
    assert len(calls) <= 8


@pytest.mark.parametrize(("errcode", "word"), [(40013, "企业 ID"), (40001, "Secret")])
async def test_tok_13_without_a_token_nothing_is_sent(tmp_path: Path, valkey: str, errcode: int, word: str) -> None:
    """TOK-13: gettoken says 40013 or 40001: no send with an empty token, the operator is told what to check, nothing lost."""

    def same(settings: Any) -> Any:
        return settings

    async with changed_stack(tmp_path, valkey, same) as stack:
        await stack.post("faults", name="errcode", value=errcode, account="wecom-main", path="gettoken")
        await push(stack, MEMBER[0], [MEMBER[1]], "发不出去", "k")

        async def parked() -> bool:
            return [row["status"] for row in await outgoing(stack, "cause = 'push'")] == ["parked"]

        await stack.until(parked)
        assert await sends(stack, "wecom-main") == []

        async def alerted() -> bool:
            return len(await outgoing(stack, "cause = 'notice'")) == len(stack.settings.tenants[0].operators) + 1

        await stack.until(alerted)  # each operator and the group, once
        alerts = [words(row) for row in await outgoing(stack, "cause = 'notice'")]
        assert all(str(errcode) in text and word in text for text in alerts)
        await stack.post("faults", clear=True)
        await stack.advance(600)
        await stack.seen(*MEMBER, "发不出去", 30)


async def test_tok_14_every_call_goes_to_the_accounts_own_host(tmp_path: Path, valkey: str) -> None:
    """TOK-14: api_base with a path of its own: token, send and probe all go there."""

    def moved(settings: Any) -> Any:
        return with_accounts(settings, lambda a: a.model_copy(update={"api_base": f"{a.api_base}/{a.platform}"}))

    async with changed_stack(tmp_path, valkey, moved) as stack:
        await opened(stack, MEMBER)
        await opened(stack, VERIFIED)
        assert await fetches(stack, "wecom-main") == await fetches(stack, "mp-main") == 1
