"""Area format: long answers are cut by bytes, in order, and nothing of them is lost on any account."""

from __future__ import annotations

import re

import pytest

from gateway import texts
from tests.cases.scenes import LABEL, MEMBER, OTHER_MEMBER, UNVERIFIED, VERIFIED, outgoing, push, sends, words
from tests.fakes.model_server import say
from tests.stack import Stack

PART = re.compile(r"^\(\d+/\d+\)\n")
LIMIT = 2048


async def everything(stack: Stack, who: tuple[str, str], count: int) -> list[str]:
    """What the person has seen, once it is ``count`` messages."""

    async def there() -> bool:
        return len(await stack.texts(*who)) >= count

    await stack.until(there)
    return await stack.texts(*who)


def joined(messages: list[str]) -> str:
    """The text without the labels of its parts, the AI label and the offers to continue."""
    text = "".join(PART.sub("", message) for message in messages)
    text = re.sub(r"\n（还有 \d+ 条，回复「继续」查看）", "", text)
    return text.replace(LABEL, "").replace(f"\n\n{texts.CONTINUE_HINT}", "").strip()


@pytest.mark.parametrize("who", [MEMBER, VERIFIED], ids=lambda who: who[0])
async def test_fmt_01_a_thousand_characters_arrive_whole(stack: Stack, who: tuple[str, str]) -> None:
    """FMT-01: 3000 bytes are two messages of at most 2048 bytes: the first in the response, the second pushed; nothing lost."""
    stack.model.then(say("字" * 1000))
    await stack.ask(*who, "写长一点")
    messages = await everything(stack, who, 2)
    assert len(messages) == 2
    assert max(len(message.encode()) for message in messages) <= LIMIT
    assert joined(messages) == "字" * 1000


async def test_fmt_01_without_push_the_rest_is_pulled(stack: Stack) -> None:
    """FMT-01, FMT-10: where nothing can be pushed, 继续 gives page after page until the text is whole."""
    stack.model.then(say("字" * 2000))
    messages = [await stack.ask(*UNVERIFIED, "写长一点")]
    while "回复「继续」" in messages[-1] and len(messages) < 9:
        messages.append(await stack.ask(*UNVERIFIED, "继续"))
    assert max(len(message.encode()) for message in messages) <= LIMIT
    assert "".join(messages).count("字") == 2000
    assert await stack.ask(*UNVERIFIED, "继续") == texts.NOTHING_PARKED
    assert len(stack.model.requests) == 1


async def test_fmt_07_table_rows_stay_whole_under_their_head(stack: Stack) -> None:
    """FMT-07: a 6 KB table of 30 rows: no row is cut, every message has the head."""
    rows = [f"| 设备{number:02d} | {'正常运行' * 12} | 结束{number:02d} |" for number in range(30)]
    stack.model.then(say("| 设备 | 状态 | 备注 |\n| --- | --- | --- |\n" + "\n".join(rows)))
    await stack.ask(*MEMBER, "列出设备")

    async def whole() -> bool:
        return "结束29" in "".join(await stack.texts(*MEMBER))

    await stack.until(whole)
    messages = await stack.texts(*MEMBER)
    lines = "\n".join(messages).splitlines()
    for number in range(30):
        line = [line for line in lines if f"设备{number:02d}" in line]
        assert len(line) == 1
        assert f"结束{number:02d}" in line[0]
    assert all("备注" in message for message in messages)


async def test_fmt_08_four_thousand_characters_are_all_accepted(stack: Stack) -> None:
    """FMT-08: 12 KB by push: six messages, each accepted, none longer than the platform takes, nothing missing."""
    await push(stack, "wecom-main", ["lisi"], "字" * 4000, "k")
    messages = await everything(stack, OTHER_MEMBER, 6)
    assert (len(messages), joined(messages)) == (6, "字" * 4000)
    assert [sent["errcode"] for sent in await sends(stack, "wecom-main")] == [0] * 6


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_fmt_09_the_boundary(stack: Stack, over: int) -> None:
    """FMT-09: 2047 and 2048 bytes are one message, 2049 are two, pushed and as an answer in the response."""
    text = "a" * (LIMIT + over)
    await push(stack, "wecom-main", ["lisi"], text, "k")
    pushed = await everything(stack, OTHER_MEMBER, 1 if over <= 0 else 2)
    assert (len(pushed), joined(pushed)) == (1 if over <= 0 else 2, text)
    stack.model.then(say(text))
    await stack.ask(*MEMBER, "写")

    async def whole() -> bool:
        return joined(await stack.texts(*MEMBER)) == text

    await stack.until(whole)
    answers = await stack.texts(*MEMBER)
    assert len(answers) == (1 if over <= 0 else 2)
    assert max(len(message.encode()) for message in answers) <= LIMIT


@pytest.mark.parametrize("errcode", [45002, 40058, 99999])
async def test_fmt_09_a_permanent_no_is_not_repeated(stack: Stack, errcode: int) -> None:
    """FMT-09: too long, wrong parameter, a number nobody knows: one call, dead, and an operator hears of it."""
    await stack.post("faults", name="errcode", value=errcode, account="wecom-main", path="message/send", count=1)
    await push(stack, "wecom-main", ["lisi"], "不收的消息", "k")

    async def settled() -> bool:
        rows = await outgoing(stack)
        alerted = any(str(errcode) in words(row) for row in rows if row["cause"] == "notice")
        return [row["status"] for row in rows if row["cause"] == "push"] == ["dead"] and alerted

    await stack.until(settled)
    assert len(await sends(stack, "wecom-main", "不收的消息")) == 1


async def test_fmt_10_sixty_kilobytes_are_five_and_an_offer(stack: Stack) -> None:
    """FMT-10: five messages and 回复「继续」; every 继续 brings more until all is there."""
    stack.model.then(say("字" * 20_000))
    await stack.ask(*MEMBER, "写六万字节")
    messages = await everything(stack, MEMBER, 5)
    assert len(messages) == 5
    assert "继续" in messages[-1][-40:]
    await stack.ask(*MEMBER, "继续")
    more = await everything(stack, MEMBER, 10)
    assert len(more) == 10
    assert "".join(more).count("字") > "".join(messages).count("字")
    for _ in range(8):
        if (await stack.ask(*MEMBER, "继续")) == texts.NOTHING_PARKED:
            break

        async def settled() -> bool:
            return not await outgoing(stack, "status IN ('pending', 'sending', 'passive_reserved')")

        await stack.until(settled)
    assert "".join(await stack.texts(*MEMBER)).count("字") == 20_000
    assert len(stack.model.requests) == 1


async def test_fmt_10_sixty_kilobytes_without_push_are_pages(stack: Stack) -> None:
    """FMT-10: where nothing can be pushed: one page a 继续, each within the limit and offering the next, all there at the end."""
    stack.model.then(say("字" * 20_000))
    pages = [await stack.ask(*UNVERIFIED, "写六万字节")]
    while "回复「继续」" in pages[-1] and len(pages) < 60:
        pages.append(await stack.ask(*UNVERIFIED, "继续"))
    assert "".join(pages).count("字") == 20_000
    assert max(len(page.encode()) for page in pages) <= LIMIT
    assert len(stack.model.requests) == 1


@pytest.mark.parametrize("fault", [{"name": "slow_ms", "value": 400}, {"name": "busy"}, {"name": "accept_then_502"}])
async def test_fmt_12_parts_never_overtake(stack: Stack, fault: dict[str, object]) -> None:
    """FMT-12: the first part is slow, refused for a moment, or its answer is lost: still 1, 2, 3, 4 and each once."""
    await stack.post("faults", account="wecom-main", path="message/send", count=1, **fault)
    await push(stack, "wecom-main", ["lisi"], "字" * 2400, "k")
    messages = await everything(stack, OTHER_MEMBER, 4)
    assert [message[:5] for message in messages] == ["(1/4)", "(2/4)", "(3/4)", "(4/4)"]
    assert joined(messages) == "字" * 2400
