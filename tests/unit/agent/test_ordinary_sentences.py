"""Tens of thousands of ordinary sentences around the words of decision: none of them confirms or rejects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from agent.intents import read_decision


def _listed(text: str) -> list[str]:
    """The phrases of a text that has them between bars and line ends."""
    return [phrase for phrase in re.split(r"[|\n]", text) if phrase]


_WORDS = _listed("""
确认|确定|执行|同意|批准|取消|拒绝|驳回|好的|好|可以|行|嗯|是|是的|对|没问题|OK|不用|不用了|不行|不要|不是|算了|通过
正确|放弃|作废|不|别|中|成|得|当然|没错|照办|赞成|反对|不需要|不对|不好|嗯嗯|好吧|行吧|全部取消|都确认
""")
_AFTER = _listed("""
订单状态|收货地址了吗|一下时间|单在哪里看|过的那个会议|，但是先别动|，不过要改成三点|还是不行呢|的话告诉我一声
就发给李四|之前先备份|了三次都没收到短信|率是多少|按钮点不动|这张车票的手续费|预订的房间|函数里的循环|一个测试用例
这条 SQL 要多久|吧？|，那家店几点关门|，我想订两位靠窗的|，再帮我查一下酒店|，有没有早一点的高铁|，退款多久到账
，谢谢你|，那就这样|，拜拜|，我再想想|！那它的电话是多少|。另外帮我查下天气|~那地址呢|啊 那价格呢|呀 那帮我记一下
的方案|的人数|的时候叫我|了就告诉我|以后再说|过期了怎么办|失败|书|函|键|后还能改吗|前请先看看|也没用|都不懂|就走人
才怪|什么呀|谁|哪个|几次|多少钱|怎么办|一点也不|下来|过来看看|了没|没有|与否|不掉|得了吗|得很|极了|多了|一半
27号的会|2 个|三点半|明天|周五晚上|后天上午
""")
_BEFORE = _listed("""
怎么|为什么要|谁能|我还没|客服说|能不能|如果你|等老板|我觉得|他说|她没|要不要|已经|需要我|是不是要|麻烦再|明天再
系统提示|页面上写着|这个能|餐厅让我|12306 叫我|代码里写的是|酒店前台要我|刚才那个|第二步才|假如|除非|一直|从来没
早就|刚刚|正在|还在|赶紧去|你来|大家都|领导|昨天|只好|不想|无法|自动|叫他|告诉他|说好|回复|点击|按|输入|选择|显示
等于|包括|关于|因为|但是|然后|最后|首先
""")
_THINGS = _listed("""
酒店|餐厅|门票|出租车|高铁票|快递|发票|合同|订单|待办|提醒|会议|报销单|工单|请假单|周报|服务器|密码|优惠券|外卖|包间
航班|会员|健身卡
""")
_PEOPLE = _listed("张三|老板|客服|前台|李经理|同事|我妈|司机|财务|快递员")
_ABOUT = _listed("""
{word}{thing}|{thing}{word}吗|{thing}{word}了|帮我{word}{thing}|这个{thing}{word}|{word}，{thing}的事
{thing}能{word}吗|{word}那个{thing}|请{word}{thing}|{thing}，{word}|{thing}怎么{word}|{word}一下{thing}
上次的{thing}{word}了没
""")
_SAID = _listed(
    "{who}{word}|{word}{who}|{word}，{who}|@{who} 麻烦{word}一下|{who}：{word}|{who}说：“{word}”|{who}回了个「{word}」"
)
_COUNTS = _listed("""
{n}号确认|确认{n}号|取消{n}号房|{n}|确认{n}个|同意{n}点|执行{n}次|{n}号可以|可以{n}点|好的{n}点见|行{n}块|取消{n}张
{n}人可以|不要{n}楼|确认 {n} 位|同意 {n} 元|确认{n}点的会|确认{n}:30|确认{n}.5|确认+{n}|{n}确认了没|{n} 已取消
""")


def sentences() -> Iterator[str]:
    """Every template with every word."""
    yield from (word + after for word, after in product(_WORDS, _AFTER))
    yield from (before + word for before, word in product(_BEFORE, _WORDS))
    yield from (before + word + after for before, word, after in product(_BEFORE[::2], _WORDS[::2], _AFTER[::5]))
    yield from (form.format(word=word, thing=thing) for form, word, thing in product(_ABOUT, _WORDS, _THINGS))
    yield from (form.format(word=word, who=who) for form, word, who in product(_SAID, _WORDS, _PEOPLE))
    yield from (form.format(n=n) for form, n in product(_COUNTS, (*range(1, 60), 2026)))


def test_none_of_them_decides() -> None:
    """C34 CNF-02: hotels, restaurants, trains, shops, offices, programs and small talk are talk."""
    every = set(sentences())
    assert len(every) > 30_000
    found = ((text, read_decision(text)) for text in every)
    assert sorted(text for text, decision in found if decision is not None and decision.kind != "edit") == []
