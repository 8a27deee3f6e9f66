"""Plain yes and no as colleagues type them, and what only looks like it."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.folding import as_typed, fold, simplified
from agent.intents import Decision, read_decision
from agent.yes_no import read_answer


def listed(text: str) -> list[str]:
    """The phrases of a text that has them between bars and line ends."""
    return [phrase for phrase in re.split(r"[|\n]", text) if phrase]


STRONG_YES = """
确认|确认！|确认。|　确认　|确認|確認|確定|确定|执行|執行|确认执行|確認執行|立即执行|确认操作|我确认|approve|CONFIRM
/approve|／确认
"""
STRONG_NO = """
取消|取消！|取消~|拒绝|拒絕|驳回|駁回|否决|否決|取消执行|取消執行|不执行|别执行|別執行|我拒绝|cancel|Reject|/cancel
／取消
"""
WEAK_YES = """
是|是的|是啊|是滴|是的呢|嗯|嗯嗯|嗯呐|嗯好的|嗯嗯可以|嗯 好的|哦好的|好|好的|好滴|好哒|好嘞|好咧|好呀|好勒|好哈
好的哈|好的好的|好好好|可以|可以的|可以哒|可以可以|完全可以|当然可以|没问题|没问题的|没问题哈|木问题|行|行吧|行嘞
那行|那好吧|得|得嘞|要得|中|中啊|成|成吧|对|对的|对对对|没错的|没毛病|我没意见|同意|我同意|同意的|赞成|批准|允许
通过|照办|就这么办|确认吧|确认的|好的确认|执行吧|可以执行|确认无误|ok|Ok.|ＯＫ|OK的|ok啦|okok|okay|YES|yes!|yeah
sure|of course|go ahead|agree|confirmed|no problem|haode|hao de|keyi|queren|👌|👍🏻|👌🏿 可以|👍👍👍👍👍👍👍👍
好的👍|好的😊|🆗|✅|✔️|☑️|🙆🏻‍♀️|[OK]|[强]|/:ok|/:strong|√|好的～|好的!!!|嗯~| 可以 |好嘅|可以嘅|冇問題|沒問題|係
係啊|當然可以|贊成|照辦|無異議|@小驿 好的|@小驿\u2005可以|认可|我认可|赞同|接受|我接受|必须的|肯定的
"""
WEAK_NO = """
不|不不不|不要|不要了|不用|不用了~|不用啦|不必了|不行|不行的|不可以|不好|不是|不是的|不对|不成|不中|不了|不需要了
不同意|我不同意|不赞成|不想|不做了|先不了|暂时不用了|算了|算了吧|那算了|还是算了吧|拉倒吧|别|别了|别弄了|否|否定
反对|放弃|我放弃|作废|取消吧|取消掉|没门|不可能|当然不行|no|NO!|Nope|no no no|no way|buyao|bu yong|quxiao|👎🏻|❌|✖️
不认可|不赞同|我不赞同|不接受|我不接受|不愿意|免了|绝不
🚫|🙅‍♀️|✋|🖐️|不要❌|[弱]|/:weak|×|ＮＯ|唔好|唔使|唔得|唔係|不對|沒門|絕對不行|還是算了|@小驿 不用了
"""


@pytest.mark.parametrize(
    ("said", "kind", "strength"),
    [
        (STRONG_YES, "confirm", "strong"),
        (STRONG_NO, "reject", "strong"),
        (WEAK_YES, "confirm", "weak"),
        (WEAK_NO, "reject", "weak"),
    ],
)
def test_plain_answers(said: str, kind: str, strength: str) -> None:
    """CNF-01 C07: every plain yes and no on the side it is meant; only a word that names the act is strong."""
    wrong = {}
    for text in listed(said):
        found = read_decision(text)
        if found is None or (found.kind, found.strength, found.number, found.all) != (kind, strength, None, False):
            wrong[text] = found
    assert wrong == {}


NEITHER = (
    # negations, tales, pieces of something longer; enough, by the way, either way, wait; more after it; questions
    """
不取消|别取消|先别取消|不要取消|不想取消|取消不了|取消了没|已取消|取消成功|取消订单|取消置顶|取消明天的会|先别确认
不要确认|确认一下|确认下|再确认一遍|确认过了|我确认过了没有|确认收货|确认函|确认不了|请确认|请确认一下|帮我确认
等我确认|我去确认|你确定|谁确认|怎么取消|我想取消|我要取消|能取消吗|同意书|同意率|他同意了|我同意改期|同意不|执行力
执行人|执行完了|执行到哪了|执行 ls|批准文号|通过率|通过了|拒绝率|被拒绝了|驳回原因|放弃了|不是不可以|不是不行
不是这个|不是我|我不是|不太好|肯定|我不行|我没错|不好了|不行了|不干了|不对劲|不是吧|不对吧|不会吧|不要紧|不要辣|不用谢|不用担心
不必客气|好了|行了|得了|对了|可以了|对哦|哦对|哦是的|是吧|对吧|可以吧|没问题吧|好的吧？|都可以|都行|都不要|随便|也行
还行|还可以|最好|很好|好吃|好好的|好办|行李|行程|中国|中行|成都|得空|中的|恩准|对面|是谁|是因为|嗯哼|嗯不是|嗯？|先不要|先等等
再说吧|等等|收到|知道了|谢谢|随你|好的，谢谢|好的谢谢|好的我知道了|好的再见|可以可以但是…|可以，不过要改成三点
行的话告诉我|不行就算了|对，我说不要洋葱|不是，我并不认为是这样|我说“不”而不是“对”|“确认”|「好的」|好的 取消
可以 不可以|是 不是|ok no|👍👎|好的👎|确认/取消|是/否|y/n|y|n|1|k|确认?|确认？|确认吗|好吗|行么|可以嘛|对嘛|好的？！
👍?|👌❓|好不好|行不行|是不是|可不可以|OK吗|ok不|not ok|no idea|now|notes|yesterday|right now|okra|confirm order
cancel order|[微笑]|/:rose|🙏|😂
"""
)


def test_what_only_looks_like_an_answer() -> None:
    """C34 CNF-02: near misses decide nothing."""
    found = {text: read_decision(text) for text in listed(NEITHER)}
    assert {text: decision for text, decision in found.items() if decision is not None} == {}


NUMBERED = {
    Decision("confirm", number=27): (
        """
确认 27|确认27|确认#27|确认＃２７|27 确认|27确认|#27确认|確認 27|确认：27|确认编号27|编号 27 确认|确认第 27 项
第27项确认|同意27|批准 27|执行27|确认执行 27|/approve 27|CONFIRM #27|@小驿 27 确认|确认 27。
"""
    ),
    Decision("confirm", number=27, code="4821"): (
        """
确认 27 4821|确认27，4821|确认 27、4821。|确认27（4821）|确认 27 验证码 4821|确认27，确认码：4821|確認 27 驗證碼4821
确认#27 #4821|27 确认 4821|27 4821 确认|确认　２７　４８２１
"""
    ),
    Decision("confirm", code="4821"): "确认 验证码 4821|确认，验证码：4821",
    Decision("reject", number=27): """
取消 27|取消27|27取消|取消＃27|拒绝27|駁回 27|不同意 27|不执行27|/cancel 27|放弃27|取消：27|第27项取消
""",
    Decision("reject", all=True): (
        """
全部取消|全部取消吧|全都取消|全部都取消|都取消|全取消|取消全部|取消所有操作|取消所有待确认|全部拒绝|拒绝全部
全部驳回|統統取消|cancel all|全部 取消！
"""
    ),
    Decision("confirm", all=True): "全部确认|全部確認|都确认|确认所有|全部同意|confirm all",
}


@pytest.mark.parametrize("decision", NUMBERED)
def test_numbers_codes_and_all(decision: Decision) -> None:
    """CNF-01: which one, its code, or every one, in the ways people write it."""
    said = listed(NUMBERED[decision])
    assert {text: read_decision(text) for text in said} == dict.fromkeys(said, decision)


COUNTED = """
确认27号|确认27号的会议|确认 27 份|确认 2 项|确认27.5|确认 27 和 28|确认 27、28|确认27?|27 确认吗|27 确认了
先别确认27|别取消27|不取消 27|取消 27 的提醒|取消两张|好的 27|可以27号|27|4821|验证码 4821|验证码是4821|确认码多少
确认 27 482|确认 27 48211|确认 27 4821 5933|确认房号27|都取消了|都取消了吗|别全部取消|取消所有订单|全部确认过了
都同意了|都拒绝|所有|全部
"""


def test_numbers_of_something_else() -> None:
    """CNF-02: a date, a count, two numbers, a code alone, everything of another kind."""
    found = {text: read_decision(text) for text in listed(COUNTED)}
    assert {text: decision for text, decision in found.items() if decision is not None} == {}


_TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(
        alphabet="确認认取消好的可以行不是别改成到全部都27４８#，。！?？吗 ~👌👍🏻\u200d\ufe0f\u200b「」（）ＯＫok/@\u0301",
        max_size=30,
    ),
)


@given(_TEXTS)
def test_the_same_after_nfkc(text: str) -> None:
    """Full-width or not, the same kind of decision; nothing any Unicode text does raises."""
    before, after = read_decision(text), read_decision(unicodedata.normalize("NFKC", text))
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert (before.kind, before.number, before.code, before.strength) == (
            after.kind,
            after.number,
            after.code,
            after.strength,
        )
    assert fold(fold(text)) == fold(text)
    assert len(simplified(text)) == len(text)
    assert as_typed(text, fold(text)) is not None


@given(_TEXTS, st.sampled_from(["确认", "取消", "好的", "确认 27", "改成后天"]), st.integers(201, 2000))
def test_nothing_long_decides(text: str, word: str, size: int) -> None:
    """A message of more than 200 characters is never a word, whatever it is padded with."""
    for padded in (word + " " * size, " " * size + word, word * (size // len(word) + 1), (text or "。") * size + word):
        assert read_decision(padded) is None


@given(st.sampled_from(sorted({*listed(STRONG_YES), *listed(WEAK_YES)})), st.sampled_from(["?", "？", "吗", "么？", "…", "⁇"]))
def test_a_question_mark_takes_it_all_back(word: str, mark: str) -> None:
    """N-16: ?, ？, 吗 never grant."""
    assert read_decision(word + mark) is None


@given(st.sampled_from(listed(WEAK_YES)), st.sampled_from(listed(WEAK_NO)))
def test_yes_beside_no_is_neither(yes: str, no: str) -> None:
    """Contradiction decides nothing."""
    assert read_decision(f"{yes} {no}") is None
    assert read_decision(f"{no}，{yes}") is None


def test_answers_are_short_words_only() -> None:
    """No single character grants but these."""
    single = {chr(code) for code in range(0x4E00, 0xA000) if read_answer(chr(code)) is not None}
    assert single == set("好行中成得是对准嗯恩不别否")
