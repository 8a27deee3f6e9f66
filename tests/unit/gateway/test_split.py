"""Long texts are cut by bytes, at borders, never inside what belongs together."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.markdown import to_plain
from gateway.sanitize import PROMPT_DISCLAIMER
from gateway.split import Marked, Piece, is_border, mark, split, strip_label, truncate

_MORE = "\n（还有 {remaining} 条，回复「继续」查看）"
_PLAIN = st.text(alphabet=st.sampled_from("字母aB 。，\n👍🏽👨‍👩‍👧é\u0301🇨🇳！x1"), min_size=0, max_size=900)


def _joined(pieces: list[Piece]) -> str:
    return "".join(re.sub(r"\n（还有 \d+ 条，回复「继续」查看）\Z", "", strip_label(piece.text)) for piece in pieces)


def _size(text: str) -> int:
    return len(text.encode())


def test_fmt_01_a_thousand_characters_are_two_messages() -> None:
    """FMT-01: 3000 bytes are two messages, and nothing is lost."""
    pieces = split("字" * 1000, 2048)
    assert len(pieces) == 2
    assert all(_size(piece.text) <= 2048 for piece in pieces)
    assert pieces[0].text.startswith("(1/2)\n字")
    assert _joined(pieces) == "字" * 1000


def test_fmt_07_table_rows_are_never_cut_and_the_head_is_repeated() -> None:
    """FMT-07: a 6 KB table of 30 rows."""
    rows = [f"| {number} | 服务器-{number:02d} | {'说明' * 30}{number} |" for number in range(30)]
    source = "巡检结果如下：\n\n| 编号 | 名称 | 说明 |\n|---|:--|--:|\n" + "\n".join(rows) + "\n\n以上。"
    assert _size(source) > 5500
    for marked, head in ((to_plain(source), "编号 | 名称 | 说明\n"), (mark(source), "| 编号 | 名称 | 说明 |\n")):
        pieces = split(marked, 2048)
        assert len(pieces) > 2
        assert all(_size(piece.text) <= 2048 and head in piece.text for piece in pieces)
        for number in range(30):
            row = f"服务器-{number:02d} | {'说明' * 30}{number}"
            assert sum(row in piece.text for piece in pieces) == 1


def test_fmt_08_four_thousand_characters_are_six_messages_sent_at_once() -> None:
    """FMT-08: a single left-over message is not worth a page of its own."""
    pieces = split("字" * 4000, 2048, max_parts=5, more=_MORE)
    assert len(pieces) == 6
    assert [piece.page for piece in pieces] == [0] * 6
    assert _joined(pieces) == "字" * 4000


@pytest.mark.parametrize("limit", [2048, 4096, 20480])
@pytest.mark.parametrize(("over", "count"), [(-1, 1), (0, 1), (1, 2)])
def test_fmt_09_the_boundary(limit: int, over: int, count: int) -> None:
    """FMT-09: one byte less, exactly, one byte more."""
    text = "x" * (limit + over)
    pieces = split(text, limit)
    assert len(pieces) == count
    assert all(_size(piece.text) <= limit for piece in pieces)
    assert _joined(pieces) == text


def test_fmt_10_too_many_messages_wait_behind_continue() -> None:
    """FMT-10: 60 KB are five messages and an offer; the rest are pages of five."""
    text = "一句话说完了。" * 3000
    pieces = split(text, 2048, max_parts=5, more=_MORE)
    total = len(pieces)
    assert [piece.page for piece in pieces][:6] == [0, 0, 0, 0, 0, 1]
    assert pieces[4].text.endswith(f"（还有 {total - 5} 条，回复「继续」查看）")
    assert pieces[0].text.startswith(f"(1/{total})\n")
    assert all(_size(piece.text) <= 2048 for piece in pieces)
    assert _joined(pieces) == text


def test_cuts_prefer_paragraphs_then_lines_then_sentences() -> None:
    paragraphs = "\n\n".join("段落里的话。" * 30 for _ in range(8))
    pieces = split(paragraphs, 1200)
    assert all(strip_label(piece.text).startswith("段落里的话。") for piece in pieces)
    assert all(piece.text.endswith("\n\n") for piece in pieces[:-1])
    sentences = split("这是一句比较长的话，说完了。" * 100, 1000)
    assert all(piece.text.endswith("。") for piece in sentences)


def test_a_link_is_never_cut() -> None:
    url = "https://example.com/" + "p" * 80
    for lead in range(0, 60):
        text = "字" * lead + f"见[说明]({url})，" + "字" * 60
        whole = [piece for piece in split(text, 240) if f"[说明]({url})" in piece.text]
        assert len(whole) == 1
        plain = "字" * lead + f"说明（{url}）" + "字" * 60
        assert any(url in piece.text for piece in split(plain, 240))


def test_a_code_block_stays_whole_or_is_closed_and_opened_again() -> None:
    block = "```python\n" + "\n".join(f"print({number})" for number in range(20)) + "\n```"
    text = "说明。" * 60 + "\n\n" + block + "\n\n" + "完。" * 60
    assert any(block in piece.text for piece in split(text, 600))
    long_block = "```python\n" + "\n".join(f"print({number})" for number in range(200)) + "\n```"
    pieces = split("先看：\n" + long_block, 600)
    assert len(pieces) > 3
    for piece in pieces:
        assert piece.text.count("```") % 2 == 0
        assert _size(piece.text) <= 600
    code = "\n".join(f"print({number})" for number in range(20))
    assert any(code in piece.text for piece in split(to_plain("说明。" * 60 + f"\n\n```\n{code}\n```\n" + "完。" * 60), 600))


def test_a_disclaimer_never_parts_from_what_it_disclaims() -> None:
    """N-17: no message may begin with the words of a confirmation prompt."""
    for lead in range(0, 80):
        text = "x" * lead + PROMPT_DISCLAIMER + "即将执行以下操作，请确认" + "y" * 100
        assert not any(strip_label(piece.text).startswith("即将执行") for piece in split(text, 160))


@given(_PLAIN, st.integers(60, 400))
@settings(max_examples=150, deadline=None)
def test_joined_messages_are_the_text(text: str, limit: int) -> None:
    pieces = split(Marked(text), limit, more="")
    assert "".join(strip_label(piece.text) if len(pieces) > 1 else piece.text for piece in pieces) == text
    assert all(_size(piece.text) <= limit for piece in pieces)


@given(_PLAIN)
@settings(max_examples=100, deadline=None)
def test_no_visible_character_is_torn(text: str) -> None:
    for piece in split(Marked(text), 120)[1:]:
        first = strip_label(piece.text)[:1]
        assert not first or (unicodedata.category(first) not in ("Mn", "Me") and first not in "\u200d\ufe0f🏽")


@given(st.text(max_size=400), st.integers(40, 200), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_any_text_fits(text: str, limit: int, max_parts: int) -> None:
    for piece in split(text, limit, max_parts=max_parts):
        assert len(piece.text.encode("utf-8", "surrogatepass")) <= limit


def test_flags_and_families_have_borders_only_around_them() -> None:
    text = "a🇨🇳🇺🇸👨‍👩‍👧b"
    assert [place for place in range(len(text) + 1) if is_border(text, place)] == [0, 1, 3, 5, 10, 11]
    assert truncate("👨‍👩‍👧" * 3, 30) == "👨‍👩‍👧…"
    assert truncate("短", 30) == "短"
