"""Finds in a model's words what claims that a write is done: none is ever done inside a turn (overview §7.14)."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WRITE = (
    "(?:创建|新建|建[好了立]|发送|发[出给到了]|提交|删[除掉了]|取消|重启|重新启动|部署|通知|转告|告知|告诉|预[订约]|订好|下单|安排[好妥]"
    "|支付|转账|关闭|停用|启用|添加|保存到|写入|设[好置])"
)
_FINISH = "(?:执行|完成(?!分析|查询|检查|统计|汇总|整理))"
_DONE = rf"(?:{_FINISH}|办[好妥完]|做[好完]|处理|搞定|改[好成为到]|修改|更新|记[录下好]|保存|安排)"
_LEAD = r"(?:好的?|好嘞|嗯|可以|没问题|收到|明白|搞定|OK|ok)?[,，!！。、\s]*"
_WHOM = r"(?:(?:为|帮|给|替)(?:你们?|您|大家|我们|(?![你您])[\u4e00-\u9fff]{2,4}?|[A-Za-z][\w.-]{1,20}))?"
_DID = rf"(?:已经?|刚刚?)(?:成功)?(?:在[^,，。]{{1,10}}?)?{_WHOM}\s*(?:[把将][^,，。]{{1,20}}?)?"
_MADE = "(?:好了?|完了?|成功了?|完成了?|妥了?)"
_NO_ACT = "(?!的|过|中)"
"""已发送的消息, 重启过的机器: what is told of has it done already."""
_CLAIM = re.compile(
    rf"^(?![^,，。]*(?:没(?!问题)|未|不会|不能)){_LEAD}(?:(?:我|系统)?{_DID}(?:{_WRITE}|{_DONE}){_NO_ACT}"
    rf"|[^,，。]{{0,20}}(?:(?:{_WRITE}|{_DONE}|[建设发删改加办做]){_MADE}|搞定了?|成功|(?:已经?|刚刚?)(?:成功)?(?:{_WRITE}|{_FINISH}){_NO_ACT}))"
    "(?![^,，。]*(?:吗|没|未|不|需要|之前|后再))"
)
_ACTED = re.compile(rf"^{_LEAD}我?{_DID}{_WRITE}{_NO_ACT}|^{_LEAD}[^,，。]{{0,15}}(?:{_WRITE}|[建设发删]){_MADE}[。.!！;；\s]*$")
_STANDS = re.compile(
    rf"^{_LEAD}(?:待办|提醒|闹钟|日程|消息|通知|邮件|审批|申请|会议室)(?:[“「\"][^”」\"]{{1,40}}[”」\"])?(?:已经?|刚刚?)(?:成功)?{_WHOM}"
    "(?:创建|建[好立]|发[送出给到]|提交|删除|预[订约]|添加|设[好置])"
)
"""The same said of the thing (待办已创建): a claim only where no tool has just told how things stand."""
_OTHERWISE = re.compile(
    "[?？]|没(?!问题)|未|不|吗|需要|之前|上次|昨|前天|刚才|早上|上午|如果|假如|例如|比如|如下|以下|下面|文案|草稿|示例|#\\d|其中|失败|共"
    '|[:：]\\s*\\d+\\s*[个条台份次]|^(?:[“"「『]|系统|他|她|它|对方|客户|公司|会议(?!室))'
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
    claims = (part for part in sentences if _ACTED.match(part) or (not known and _STANDS.match(part)))
    return any(not _OTHERWISE.search(part) and not any(part in one for one in known) for part in claims)
