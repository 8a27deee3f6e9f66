"""Markdown reads well as plain text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.markdown import looks_like_markdown, to_plain_text


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        pytest.param("# 标题\n- **a**", "标题\n• a", id="DEL-07"),
        ("## 二级 ##", "二级"),
        ("标题\n===", "标题"),
        ("* 甲\n  - 乙\n+ 丙", "• 甲\n  • 乙\n• 丙"),
        ("1. 甲\n2. **乙**", "1. 甲\n2. 乙"),
        ("- [ ] 买菜\n- [x] 做饭", "☐ 买菜\n☑ 做饭"),
        ("**粗**和*斜*、__粗__、_斜_、~~删~~", "粗和斜、粗、斜、删"),
        ("2*3*4=24，a_b_c，`a*b*c`", "2*3*4=24，a_b_c，a*b*c"),
        ("见[文档](https://e.com/a_b_c)。", "见文档（https://e.com/a_b_c）。"),
        ("[https://e.com](https://e.com)", "https://e.com"),
        ("<https://e.com/x>", "https://e.com/x"),
        ("![图](https://e.com/a.png)", "图（https://e.com/a.png）"),
        ("> 引用\n> - 项", "│ 引用\n│ • 项"),
        ("| 名 | 量 |\n|---|--:|\n| 甲 | 1 |\n| **乙** | 2 |", "名 | 量\n──────────\n甲 | 1\n乙 | 2"),
        ("```py\nx = '**a**'\n\n\ny\n```\n完", "x = '**a**'\n\n\ny\n完"),
        ("甲\n\n\n\n乙", "甲\n\n乙"),
        ('甲<br>乙<font color="info">丙</font>', "甲\n乙丙"),
        (r"\*不斜\* \# 不是标题", "*不斜* # 不是标题"),
        ("---", "──────────"),
        ("a | b 不是表格", "a | b 不是表格"),
    ],
)
def test_readable(source: str, plain: str) -> None:
    assert to_plain_text(source) == plain


def test_plain_text_is_not_taken_for_markdown() -> None:
    assert not looks_like_markdown("好的，已经帮你记下了。3*4=12 吗？")
    assert looks_like_markdown("**好**")


@given(st.text(alphabet=st.sampled_from("ab*_`#[]()|-> \n1.~!<\\中"), max_size=120))
@settings(max_examples=300, deadline=None)
def test_letters_survive(source: str) -> None:
    plain = to_plain_text(source)
    assert (
        [c for c in plain if c == "中"] == [c for c in source if c == "中"]
        or "](" in source
        or "```" in source
        or "~~~" in source
    )
