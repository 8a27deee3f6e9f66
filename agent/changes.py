"""The grammar of a short change to what was proposed: 改成后天, 把时间改到四点, 27 改成 3 台, 不对，是周五."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.folding import simplified

_VERB = (
    r"(?:改[成为到]|(?<!转)换[成为到]|改[在回作至]|(?:修改|更改|变更|调整|更换)[成为到至]|(?:推迟|提前|延后|顺延|挪|(?<!蔓)延|(?<!空)调)到)"
    r"(?!了|过|的话)"
)
_PAUSE = r"[\s,。!.、~]+"
_CORRECTS = (
    r"(?:(?:不对|不是|不行|不好|不[要用]了?|算了|说?错了|写错了|等等|等一?下|哦?不{1,3}|好的?|可以|行|嗯{1,3}|哦)"
    rf"{_PAUSE}){{0,3}}"
)
_ASKED_FOR = r"(?:请|麻烦|帮我|给我|还是|那就?|就|再|我要|我想|要|想|直接|重新|统一){0,3}"
_COUNTED = r"台|个|份|次|天|分|小时|人|元|号|点|月|日|楼|年|周|层|件|张|位"
_NUMBER = (
    rf"(?:[把将]?\s*(?:#\s*(\d{{1,6}})|编号\s*(\d{{1,6}})|第\s*(\d{{1,6}})\s*[项条个]|(\d{{1,6}})(?=\s*:|\s+(?!{_COUNTED})|\s*的"
    rf"|{_VERB}\s*[^\d\s]))\s*:?\s*(?:的\s*)?)?"
)
_IT = r"(?:它|这个|那个|这项|这条|这)?"
_COMMON = r"(?:(?:开始|截止|结束|提醒)?(?:时间|日期)|标题|内容|说明|名字|名称|地点|地址|主机|人数|数量|台数|收件人|负责人|优先级)"
_WHAT = r"(?:\d{1,6} )?[^\s,，。;；!:<>]{0,12}?"
_CHANGE = re.compile(
    rf"{_CORRECTS}{_ASKED_FOR}{_NUMBER}{_ASKED_FOR}"
    rf"(?P<said>(?:[把将]\s*)?{_IT}(?:的)?(?P<what>{_WHAT}|[“\"「『][^”\"」』]{{1,40}}[”\"」』])\s*{_VERB}\s*(?P<to>\S.*)"
    rf"|(?:[把将]\s*)?(?P<what2>{_WHAT})(?:改|调|换|修改|调整)(?:一下|下|个)(?P<what3>{_WHAT}),?\s*[到成为至]\s*(?P<to2>[^了过\s].*)"
    rf"|[改调换](?P<what4>{_COMMON})[到成为至](?P<to4>[^了过\s].*))",
    re.DOTALL,
)
_CORRECTION = re.compile(
    rf"(?:不是|不对|说?错了|写错了)(?:(?P<what>[^\s,，。]{{1,12}}){_PAUSE}|{_PAUSE})(?:应该|应当|而)?"
    r"是(?P<to>[^\s,，。;是不否说因谁我你他的啊呀滴][^,，。;；!]{0,19})"
)
"""不是明天，是后天. Not 不是，是我说错了, which goes on talking."""
_QUOTED = re.compile(r"“[^”]*”|\"[^\"]*\"|「[^」]*」|『[^』]*』|《[^》]*》")
_ASKS = re.compile(
    r"什么|啥|哪|谁|多少|几[点号时个台天]|怎么|如何|为何|(.)不\1|会不会|能不能|要不要|可不可以|是不是|有没有|是否|能否|可否|还是|[呢没]$"
)
_NOT_MEANT = re.compile(
    r"^(?:我|你|先|千万|可|也|还|暂时|请)*(?:不(?!良|同)|别|没|未|勿)|(?:不|不要|没|没有|未|勿|不用|不能|(?<![类级性区])别)$"
    r"|能$|可以$|可能$|会$|(?:能|可)[不否]|会不会|怎么|如何|为什么|为啥|谁|什么|啥|哪|要不|是不是|是否|如果|假如|要是|万一|除非|已经?$|刚刚?$|刚才"
    r"|后来|终于|于是|最后|本来|然后|之后|以至|只好|建议|要求|打算|准备|希望|自己|说$|再$"
    r"|^(?:他|她|你|您|我们|他们|大家|谁)|被$|听说|^想问|需要$|应该$|^为"
)


@dataclass(frozen=True, slots=True)
class Change:
    """``number``: the action's, if one was said. ``what``: what is changed, if said; ``to``: the new value. ``said``: the change
    without the words around it. All are parts of the text as given."""

    number: int | None
    what: str | None
    to: str
    said: str


def read_change(text: str) -> Change | None:
    """The change a whole folded text asks for, or None: questions, refusals and tales of changes ask for none.

    Matched in simplified characters; what is quoted is quoted as it was.
    """
    plain = simplified(text)
    match = _CHANGE.fullmatch(plain)
    if match is None:
        return _correction(text, plain)
    what = _first(match, text, "what", "what2", "what3", "what4")
    to = _first(match, text, "to", "to2", "to4")
    if to is None or _NOT_MEANT.search(simplified(what or "")) or _no_value(to):
        return None
    number = next((int(match[group]) for group in range(1, 5) if match[group]), None)
    return Change(number, what, to, to if what is None else text[match.start("said") :].strip())


def _first(match: re.Match[str], text: str, *groups: str) -> str | None:
    return next((text[slice(*match.span(group))].strip() for group in groups if match[group]), None)


def _correction(text: str, plain: str) -> Change | None:
    match = _CORRECTION.fullmatch(plain)
    to = _first(match, text, "to") if match is not None else None
    if match is None or to is None or _no_value(to):
        return None
    what = _first(match, text, "what")
    return Change(None, what, to, to if what is None else text)


def _no_value(to: str) -> bool:
    bare = _QUOTED.sub("", simplified(to))
    return bool(_ASKS.search(bare)) or bare.endswith(("了", "的话", "的时候", "吗", "么", "嘛"))
