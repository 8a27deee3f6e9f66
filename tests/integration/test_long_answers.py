"""Long and formatted answers as the person sees them, through the whole gateway and the simulator."""

from __future__ import annotations

from gateway.split import strip_label
from tests.fakes.model_server import say
from tests.stack import Stack

MEMBER = ("wecom-main", "zhangsan")
UNVERIFIED = ("mp-sub", "oDemoSubFollower000000000002")


async def test_fmt_01_a_long_answer_is_two_numbered_messages(stack: Stack) -> None:
    """FMT-01: 1000 characters, each message at most 2048 bytes, nothing lost."""
    stack.model.then(say("字" * 1000))
    await stack.say(*MEMBER, "写长一点")
    await stack.seen(*MEMBER, "(2/2)")
    texts = [text for text in await stack.texts(*MEMBER) if text.startswith("(")]
    assert len(texts) == 2
    assert all(len(text.encode()) <= 2048 for text in texts)
    assert "".join(strip_label(text) for text in texts) == "字" * 1000


async def test_fmt_08_six_messages_arrive_in_order(stack: Stack) -> None:
    """FMT-08: 4000 characters are six messages, all accepted."""
    stack.model.then(say("字" * 4000))
    await stack.say(*MEMBER, "写很长")
    await stack.seen(*MEMBER, "(6/6)")
    texts = [text for text in await stack.texts(*MEMBER) if text.startswith("(")]
    assert [text[:5] for text in texts] == [f"({n}/6)" for n in range(1, 7)]
    assert "".join(strip_label(text) for text in texts) == "字" * 4000


async def test_fmt_07_a_table_keeps_its_rows_and_repeats_its_head(stack: Stack) -> None:
    """FMT-07: 30 rows of 6 KB."""
    rows = "\n".join(f"| {n} | 服务器-{n:02d} | {'说明' * 30} |" for n in range(30))
    stack.model.then(say(f"结果：\n\n| 编号 | 名称 | 说明 |\n|---|---|---|\n{rows}"))
    await stack.say(*MEMBER, "列个表")
    await stack.seen(*MEMBER, "服务器-29")
    texts = [text for text in await stack.texts(*MEMBER) if "服务器" in text]
    assert all("编号 | 名称 | 说明" in text for text in texts)
    for n in range(30):
        assert sum(f"{n} | 服务器-{n:02d} | {'说明' * 30}" in text for text in texts) == 1


async def test_fmt_10_sixty_kilobytes_are_five_messages_and_an_offer(stack: Stack) -> None:
    """FMT-10: the rest comes with 继续."""
    stack.model.then(say("一句话说完了。" * 3000))
    await stack.say(*MEMBER, "写一本书")
    await stack.seen(*MEMBER, "回复「继续」")
    texts = [text for text in await stack.texts(*MEMBER) if text.startswith("(")]
    assert len(texts) == 5
    await stack.say(*MEMBER, "继续")
    await stack.seen(*MEMBER, "(6/")


async def test_del_07_markdown_reads_as_text(stack: Stack) -> None:
    """DEL-07: no asterisks, no hash."""
    stack.model.then(say("# 标题\n- **a**"))
    assert await stack.ask(*MEMBER, "列一下") == "标题\n• a"


async def test_an_account_without_push_hands_out_a_long_answer_piece_by_piece(stack: Stack) -> None:
    """FMT-10 without push: each 继续 gives the next piece until nothing is left, and nothing is lost."""
    answer = "一句话说完了。" * 300
    stack.model.then(say(answer))
    first = await stack.ask(*UNVERIFIED, "写长一点")
    pieces = [first]
    for _ in range(6):
        more = await stack.ask(*UNVERIFIED, "继续")
        if not more.startswith(("(", "关于")):
            break
        pieces.append(more)
    assert len(pieces) > 3
    joined = "".join(pieces)
    assert joined.count("一句话说完了。") == 300
