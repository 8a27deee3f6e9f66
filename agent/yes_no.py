"""Whether a message is nothing but a yes or a no: a few words, the particles each may carry, repetition and emoji."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["confirm", "reject"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ACTS: dict[Kind, tuple[str, ...]] = {
    "confirm": _words(
        "确认 确定 执行 确认执行 确定执行 同意执行 确认操作 执行操作 我确认 我确认执行 立即执行 马上执行 现在执行 直接执行"
        " 开始执行 approve confirm"
    ),
    "reject": _words(
        "取消 拒绝 驳回 否决 取消执行 取消操作 拒绝执行 不要执行 不用执行 不执行 别执行 不确认 我拒绝 cancel deny reject"
    ),
}
"""Strong: these name the act, stand beside a number, and take no particle."""

_SOFT = "[啊呀哇哦喔噢呢哟呐哈哒滴嘞咧勒叻]?"
_WITH_PARTICLES: dict[Kind, tuple[tuple[str, str], ...]] = {
    # words, what may follow; left out: 好了 行了 对了 (enough, by the way), 对吧 可以吧 (asks), 对哦 (so that is how it is)
    "confirm": (
        ("好 行 成", f"的?{_SOFT}|吧"),
        ("中", f"{_SOFT}|吧"),
        ("得 阔以", f"的?{_SOFT}"),
        ("是 对", "的?[啊呀呢滴哒呐]?"),
        ("可以 可行 没问题 没有问题 木问题 没错 没毛病 赞成 批准 允许 照办 正确", f"的?{_SOFT}"),
        ("同意 认同 赞同 认可 接受 没意见 没有意见 无异议 没异议 没有异议", f"的?{_SOFT}"),
        ("当然", "[的啊呀]?"),
        ("ok okk okay okey 欧克", "[的啦啊呀呢哦哈哒滴嘞咧]?"),
        ("确认 确定", "[的吧]"),
        ("执行 办 做 办理 照做 就这么办 就这么着 就这样办 就按这个办 就这么做", "吧"),
    ),
    # left out: 不好了 不行了 (something went wrong), 不是吧 不对吧 (doubts), 先不要 (wait), 不干了 (fed up)
    "reject": (
        ("不行 不好 不中 不成", f"的?{_SOFT}|啦|吧"),
        ("不可以 不是 不对 不正确 不允许", f"的?{_SOFT}|啦"),
        ("不要 不用 不必 不需要 不想要", f"的?{_SOFT}|[了啦咯吧]"),
        ("不做 不弄 不搞 不办 不要做 不要办 别做 别办 别弄 别搞", "[了啦]?"),
        ("先不 先不用 暂时不用 暂时不要 暂时不需要 不麻烦 不用麻烦", "了"),
        ("不 别", "[了啦啊呀]?"),
        ("不同意 不认同 不赞同 不认可 不接受 不愿意 不赞成 不批准 不通过 反对", f"的?{_SOFT}"),
        ("算了 算啦 还是算了 拉倒 作废 放弃 取消 取消掉 拒绝 驳回", "吧?"),
    ),
}
_AS_THEY_STAND: dict[Kind, frozenset[str]] = {
    "confirm": frozenset(
        _words(
            "嗯 恩 嗯呢 嗯啊 嗯呐 嗯哪 嗯是 要得 对头 准 准了 妥了 妥妥的 通过 当然了 照做 就这么办 就这么着 就这样办 就按这个办"
        )
        + _words("必须的 肯定的 就这么定了 按这个来 可以执行 确认无误 核对无误 无误 我确定 欧了 没问题啦")
        + _words("yes yep yeah yea yup sure agree agreed approved confirmed correct 👌 👍 🆗 ✅ ✔ ☑ 🙆 √ ✓")
    ),
    "reject": frozenset(
        _words("不能 不可 不可能 不想 不干 免了 绝不 暂不 没门 否 否定 回绝 绝对不行 绝对不可以 不是这样 不是这样的")
        + _words("唔好 唔使 唔使啦 唔使了 唔得 唔是 唔要 唔同意 no nope nah rejected 👎 ✋ 🖐 ❌ ✖ 🚫 🙅 × ✗ ✘")
    ),
}
_SPELLED: dict[Kind, frozenset[str]] = {
    "confirm": frozenset(
        _words("goahead doit ofcourse noproblem soundsgood yesplease")
        + _words("haode haoya keyi keyide tongyi queren queding meiwenti meiyouwenti")
    ),
    "reject": frozenset(_words("noway nothanks dont donot buyao buyaole buyong buyongle buxing bukeyi butongyi quxiao suanle")),
}
"""English and pinyin, compared without the spaces between."""

_LEAD: dict[Kind, str] = {
    "confirm": r"[嗯恩]{1,6}(?=[^准])|[哦噢喔](?=[好行成]|可以|没问题|同意)|那(?=[好行]|可以)"
    r"|我(?=同意|赞成|赞同|认可|接受|没有?[意异]|无异)|(?:完全|绝对|当然)(?=可以|可行|同意|赞成|没问题|没有)|(?:绝对|当然)(?=[好行])|(?:好的|是的)(?=确[认定]|执行|同意)",
    "reject": r"那(?=算)|我(?=反对|放弃|不(?:同意|赞成|赞同|认可|接受|愿意|批准|要|需要|想|做))|当然(?=不)",
}
"""What may stand before: 嗯好的, 那行, 我同意, 完全可以, 好的确认. Left out: 哦对 (now I see), 我没错, 我不行 (of oneself)."""
_EMOJI = "".join(word for words in _AS_THEY_STAND.values() for word in words if len(word) == 1 and not word.isalnum())
_FRIENDLY = "😊😄😁😃🙂☺😆🌹🤝💪🙏"
"""Says nothing of its own beside a word."""
_FACES = {
    "[ok]": "👌", "[好的]": "👌", "[强]": "👍", "[弱]": "👎", "[no]": "👎",
    "/:ok": "👌", "/:strong": "👍", "/:weak": "👎", "/:no": "👎",
}  # fmt: skip
_FACE = re.compile("|".join(map(re.escape, _FACES)), re.IGNORECASE)
_MAX_CHARS = 40
_MAX_PIECES = 6


def _grammar(kind: Kind) -> re.Pattern[str]:
    bases = [f"(?:{'|'.join(words.split())})(?:{after})" for words, after in _WITH_PARTICLES[kind]]
    bases.append("|".join(map(re.escape, sorted((*ACTS[kind], *_AS_THEY_STAND[kind]), key=len, reverse=True))))
    return re.compile(rf"(?:{_LEAD[kind]})?(?P<said>{'|'.join(bases)})(?P=said){{0,5}}")


_GRAMMAR: dict[Kind, re.Pattern[str]] = {"confirm": _grammar("confirm"), "reject": _grammar("reject")}


@dataclass(frozen=True, slots=True)
class Answer:
    """A yes or a no; ``strong`` when it names the act."""

    kind: Kind
    strong: bool


def read_answer(word: str) -> Answer | None:
    """The answer that a folded, simplified, lower-case message is as a whole, or None. Yes beside no is neither."""
    if len(word) > _MAX_CHARS:
        return None
    spelled = re.sub(r"[\s'’]+", "", word)
    pieces = _pieces(word)
    for kind in ACTS:
        if word in ACTS[kind]:
            return Answer(kind, strong=True)
        if spelled in _SPELLED[kind] or (pieces and all(map(_GRAMMAR[kind].fullmatch, pieces))):
            return Answer(kind, strong=False)
    return None


def with_emoji(text: str) -> str:
    """WeChat's own faces of agreement and refusal, which arrive as codes ([OK], /:strong), as emoji."""
    return _FACE.sub(lambda found: _FACES[found[0].casefold()], text)


def _pieces(word: str) -> list[str]:
    once = re.sub(rf"([{_EMOJI}])(?:\s*\1)+", r"\1", word)
    spaced = re.sub(rf"([{_EMOJI}{_FRIENDLY}])", r" \1 ", once)
    pieces = [piece for piece in re.split(r"[\s。.!~〜]+", spaced) if piece and piece not in _FRIENDLY]
    return pieces if len(pieces) <= _MAX_PIECES else []
