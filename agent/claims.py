"""Finds in a model's words what claims that a write is done: none is ever done inside a turn (overview §7.14)."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DID = (
    "(?:创?建|新建|设置?|添加|安排|完成|执行|发送|发出|发给|发|提交|取消|删除?|更新|修改|改|重启|部署|通知|转告|告诉|告知|"
    "办|做|处理|搞定|写入?|记录?|保存)"
)
_CLAIM = re.compile(
    rf"^(?![^,，。]*(?:没(?!问题)|未|不会|不能))(?:好的?|好嘞|嗯|可以|没问题|收到|明白)?[,，!！。、\s]*(?:我|系统)?(?:"
    rf"(?:已经?|刚刚?)(?:成功)?(?:(?:为|帮|给|替|按)[^,，。]{{0,8}})?(?:把|将)?[^,，。]{{0,20}}?{_DID}"
    rf"|[^,，。]{{0,20}}(?:{_DID}(?:好了?|完了?|成功了?|完成了?|妥了?)|搞定了?|成功))(?![^,，。]*(?:吗|没有|没|未|不|需要|之前|后再))"
)
_WRITE = (
    "(?:创建|新建|建好|发送|发出|发给|发到|提交|删除|取消|重启|重新启动|部署|通知|转告|告知|预订|预约|下单|安排|支付|转账"
    "|关闭|停用|启用|添加到|保存到|写入|设置?了?[^,，。]{0,12}(?:提醒|闹钟|日程))"
)
_LEAD = "(?:好的?|好嘞|嗯|可以|没问题|收到|明白|搞定|OK|ok)?[,，!！。、\\s]*"
_WRITTEN = re.compile(
    rf"^{_LEAD}我?(?:已经?|刚刚?)(?:成功)?(?:(?:为|帮|给|替|按)[^,，。]{{1,10}}?)?(?:把|将)?[^,，。]{{0,15}}?{_WRITE}"
    rf"|^{_LEAD}[^,，。]{{0,15}}{_WRITE}(?:好了|完了|成功了?|完成了?)[。.!！;；\s]*$"
)
_OTHERWISE = re.compile(
    "[?？]|没(?!问题)|未|不|吗|需要|之前|上次|昨|前天|刚才|早上|上午|如果|假如|例如|比如|如下|以下|下面|文案|草稿|示例|#\\d|其中"
    '|^(?:[“"「『]|系统|他|她|它|对方|客户|公司|会议)'
)
"""A report, a question, a draft or an example is no claim of an act of one's own, just now."""

_ASKS = re.compile("(?:[?？]|吗|没有?|呢|了没)[。.!！~\\s]*$")
_SENTENCE = re.compile(r"[^。！!；;\n]*[。！!；;\n]?")


def without_claims(text: str) -> str:
    """The text without sentences that say it is done; used only while something said in this turn still waits."""
    return "".join(part for part in _SENTENCE.findall(text) if not _CLAIM.match(part.strip(" *-#>"))).strip()


def claims_a_write(text: str, question: str, known: Sequence[str] = ()) -> bool:
    """Whether the text says that the assistant has just changed or sent something. An answer to a question (建好了吗) tells
    of the past, and claims nothing of this turn; neither does what is told word for word from ``known``, a tool's result."""
    if _ASKS.search(question.strip()):
        return False
    sentences = (part.strip(" *-#>\t\r\n") for part in _SENTENCE.findall(text))
    claims = (part for part in sentences if _WRITTEN.match(part) and not _OTHERWISE.search(part))
    return any(not any(part in one for one in known) for part in claims)
