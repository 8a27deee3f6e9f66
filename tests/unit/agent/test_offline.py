"""The rule model: intents, typed slots over several turns, extracts, and honesty when unsure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent import texts
from agent.llm.base import ChatMessage, ModelReply, ToolOffer
from agent.llm.offline import RuleModel
from agent.protocol import Deadline
from agent.rule.intent import find_intent
from agent.rule.slot_schema import missing
from agent.rule.slots import fill
from agent.toolbox import offer_of
from config.clock import SHANGHAI
from memory.segment import Segmenter
from tests.fakes.assistant import WECOM, settings_for
from tools.assembly import builtin_tools, tenant_tools

NOW = datetime(2026, 8, 12, 14, 30, tzinfo=SHANGHAI)  # a Wednesday
TOOLS = {
    "robots": [
        {"id": "ops", "title": "运维群", "webhook": "http://127.0.0.1/1"},
        {"id": "dev", "title": "研发群", "webhook": "http://127.0.0.1/2"},
    ],
    "scripts": [{"id": "disk-clean", "description": "清理磁盘临时文件", "argv": ["true"]}],
    "hosts": [{"id": "web-01", "address": "192.0.2.1"}],
    "logs": [{"id": "nginx", "description": "网关访问日志", "path": "/nonexistent/nginx.log"}],
    "http": [
        {
            "name": "work_order_status",
            "description": "查工单状态",
            "url": "http://127.0.0.1/{id}",
            "parameters": {
                "type": "object",
                "properties": {"id": {"type": "string", "pattern": "^WO-[0-9]+$", "title": "工单号"}},
                "required": ["id"],
                "additionalProperties": False,
            },
            "summary_template": "{id}",
            "triggers": ["工单"],
        }
    ],
}


def offers() -> list[ToolOffer]:
    tenant = {"accounts": [{**WECOM, "approval_template_id": "t1"}], "operators": [], "tools": TOOLS}
    settings = settings_for(Path("/nonexistent"), tenant)
    tools = {tool.name: tool for tool in [*builtin_tools(), *tenant_tools(settings, settings.tenants[0])]}
    return [offer_of(tool) for tool in tools.values()]


OFFERS = offers()
EXAMPLE = {offer.name: offer.examples[0] for offer in OFFERS if offer.examples}
EXAMPLES = [(offer.name, example) for offer in OFFERS for example in offer.examples]


class Talk:
    """A person talking with the rule model over several turns of one session."""

    def __init__(self, segmenter: Segmenter, tools: Sequence[ToolOffer] = OFFERS, subject: Any = "user") -> None:
        self.state: dict[str, Any] = {}
        self.tools = tools
        self.subject = subject
        self.segmenter = segmenter
        self.history: list[ChatMessage] = []

    async def say(self, text: str) -> ModelReply:
        model = RuleModel(self.state, NOW, self.subject, self.segmenter)
        self.history.append(ChatMessage("user", text))
        reply = await model.complete(self.history, self.tools, Deadline(1e12))
        self.history.append(ChatMessage("assistant", reply.text or "（工具）"))
        return reply


def called(reply: ModelReply) -> tuple[str, dict[str, Any]]:
    (call,) = reply.tool_calls
    return call.name, json.loads(call.arguments)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_every_tools_own_examples_find_it(segmenter: Segmenter, name: str, example: str) -> None:
    intent = find_intent(example, OFFERS, segmenter)
    assert intent.best is not None
    assert intent.best.name == name
    assert missing(intent.best, fill(example, intent.best, NOW)) == []


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        (
            "把web-01的内存告警建一个待办，明天上午提醒我",
            "todo_create",
            {"title": "web-01的内存告警", "remind_at": "2026-08-13T09:00:00+08:00"},
        ),
        ("建个待办：周五前交周报", "todo_create", {"title": "交周报", "due": "2026-08-14T18:00:00+08:00"}),
        (
            "帮我建一个待办，下周三下午三点前把合同发给李四",
            "todo_create",
            {"title": "把合同发给李四", "due": "2026-08-19T15:00:00+08:00"},
        ),
        ("待办３做完了", "todo_finish", {"number": 3}),
        ("完成待办十二", "todo_finish", {"number": 12}),
        (
            "每天早上八点半提醒我打卡",
            "reminder_create",
            {"repeat": "daily", "at": "2026-08-13T08:30:00+08:00", "text": "打卡"},
        ),
        ("半小时后提醒我关火", "reminder_create", {"at": "2026-08-12T15:00:00+08:00", "text": "关火"}),
        ("通知张三明天开会", "send_message", {"to": "张三", "text": "明天开会"}),
        ("在研发群通知：今晚发版", "notify_group", {"robot": "dev", "text": "今晚发版"}),
        ("看看工单 WO-1234 到哪了", "work_order_status", {"id": "WO-1234"}),
        ("查一下web-01的CPU使用率", "server_status", {"host": "web-01"}),
        ("查日志 nginx 里的 ERROR", "log_query", {"source": "nginx", "keyword": "ERROR"}),
    ],
)
async def test_one_sentence_one_call(segmenter: Segmenter, text: str, tool: str, arguments: dict[str, Any]) -> None:
    assert called(await Talk(segmenter).say(text)) == (tool, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "今天天气怎么样",
        "讲个笑话",
        "1+1等于几",
        "帮我写一首诗",
        "公司的报销制度是什么",
        "？",
        "asdf 1234",
    ],
)
async def test_unsure_says_what_it_can_do_and_calls_nothing(segmenter: Segmenter, text: str) -> None:
    reply = await Talk(segmenter).say(text)
    assert reply.tool_calls == ()
    assert texts.RULE_UNSURE in reply.text
    assert "· 建待办" in reply.text or "建" in reply.text


async def test_slots_are_asked_one_by_one_and_kept(segmenter: Segmenter) -> None:
    talk = Talk(segmenter)
    first = await talk.say("提醒我")
    assert first.text.endswith("请告诉我内容。")
    second = await talk.say("给客户回电话")
    assert "什么时间" in second.text
    assert called(await talk.say("后天下午三点半")) == (
        "reminder_create",
        {"text": "给客户回电话", "at": "2026-08-14T15:30:00+08:00"},
    )
    assert "slots" not in talk.state


async def test_an_answer_that_does_not_fit_is_asked_once_more_then_dropped(segmenter: Segmenter) -> None:
    talk = Talk(segmenter)
    await talk.say("提醒我喝水")
    again = await talk.say("随便吧")
    assert again.text.startswith(texts.SLOT_AGAIN)
    assert (await talk.say("都行都行")).text == texts.RULE_GAVE_UP
    assert "slots" not in talk.state


async def test_a_question_can_be_left(segmenter: Segmenter) -> None:
    talk = Talk(segmenter)
    await talk.say("完成待办")
    assert (await talk.say("算了")).text == texts.RULE_GAVE_UP
    await talk.say("完成待办")
    assert called(await talk.say("我的待办"))[0] == "todo_list"


async def test_a_choice_names_its_options(segmenter: Segmenter) -> None:
    talk = Talk(segmenter)
    reply = await talk.say("发群里：今晚维护")
    assert "运维群、研发群" in reply.text
    assert called(await talk.say("研发群")) == ("notify_group", {"text": "今晚维护", "robot": "dev"})


async def test_the_notice_comes_once_a_session(segmenter: Segmenter) -> None:
    talk = Talk(segmenter)
    assert (await talk.say("讲个笑话")).text.startswith(texts.RULE_NOTICE_USER)
    assert texts.RULE_NOTICE_USER not in (await talk.say("再讲一个")).text
    customer = Talk(segmenter, (), "customer")
    assert (await customer.say("你好")).text.startswith(texts.RULE_NOTICE_CUSTOMER)


async def test_answers_are_extracts_of_what_was_said(segmenter: Segmenter) -> None:
    talk = Talk(segmenter)
    await talk.say("我的工号是 E-1024")
    reply = await talk.say("我的工号是多少")
    assert reply.text == texts.RULE_FOUND.format(lines="· “我的工号是 E-1024”")
    assert (await talk.say("我刚才说过的工号是什么")).text == reply.text
    assert (await talk.say("我之前说过车牌号吗")).text == texts.RULE_NO_RECORD


async def test_tool_results_are_said_as_they_are(segmenter: Segmenter) -> None:
    model = RuleModel({"told_rule": True}, NOW, "user", segmenter)
    messages = [ChatMessage("user", "我的待办"), ChatMessage("tool", "现在没有未完成的待办。", tool_call_id="c")]
    assert (await model.complete(messages, OFFERS, Deadline(1e12))).text == "现在没有未完成的待办。"


async def test_demo_delay_is_read_from_the_file(segmenter: Segmenter, tmp_path: Path) -> None:
    import time

    delay = tmp_path / "demo_model_delay_ms"
    model = RuleModel({}, NOW, "user", segmenter, delay)
    for content, least_s in (("150", 0.15), ("oops", 0.0)):
        delay.write_text(content)
        started = time.monotonic()
        await model.complete([ChatMessage("user", "你好")], (), Deadline(1e12))
        assert time.monotonic() - started >= least_s


async def test_a_time_is_no_content(segmenter: Segmenter) -> None:
    """「提醒我」, 「10分钟后」, 「喝水」: the answer that only names a time fills the time, and the content is asked again."""
    talk = Talk(segmenter)
    assert "内容" in (await talk.say("提醒我")).text
    assert (await talk.say("10分钟后")).text == "请告诉我内容。"
    name, arguments = called(await talk.say("喝水"))
    assert name == "reminder_create"
    assert arguments == {"text": "喝水", "at": "2026-08-12T14:40:00+08:00"}


@pytest.mark.parametrize("word", ["取消", "算了", "不用了"])
async def test_nothing_to_cancel_starts_nothing(segmenter: Segmenter, word: str) -> None:
    """A bare 取消 with nothing asked is no order to cancel a reminder."""
    talk = Talk(segmenter)
    await talk.say("你好")
    reply = await talk.say(word)
    assert reply.text == "现在没有要取消的事。"
    assert not reply.tool_calls


async def test_a_number_is_asked_for_in_words(segmenter: Segmenter) -> None:
    talk = Talk(segmenter)
    await talk.say("你好")
    assert (await talk.say("删除提醒")).text == "请告诉我提醒的编号。"


@pytest.mark.parametrize("text", ["给李四发消息说晚上开会", "给李四发消息，晚上开会", "给李四发个消息：晚上开会"])
async def test_a_message_to_a_colleague_as_people_say_it(segmenter: Segmenter, text: str) -> None:
    assert called(await Talk(segmenter).say(text)) == ("send_message", {"to": "李四", "text": "晚上开会"})


@pytest.mark.parametrize("text", ["帮我看下待办", "看一下我的待办", "还有什么待办", "我有哪些待办", "待办有哪些"])
async def test_looking_at_todos_makes_none(segmenter: Segmenter, text: str) -> None:
    assert called(await Talk(segmenter).say(text))[0] == "todo_list"


@pytest.mark.parametrize("text", ["你是谁？", "你能做什么", "你是机器人吗", "介绍一下你自己", "做个自我介绍吧", "介绍下自己"])
async def test_who_it_is(segmenter: Segmenter, text: str) -> None:
    """Asked who it is, it says so and what it can do, instead of not understanding."""
    talk = Talk(segmenter)
    await talk.say("你好")
    reply = await talk.say(text)
    assert reply.text.startswith("我是这里的自动助手，不是真人。\n我现在能帮你：")
    assert "没看懂" not in reply.text


async def test_words_stay_as_they_were_typed(segmenter: Segmenter) -> None:
    """What is confirmed and written is the person's text, full-width punctuation and all."""
    reply = await Talk(segmenter).say("新建知识库页面《值班表》：周一张三，周二（下午）李四！")
    assert "周一张三，周二（下午）李四！" in called(reply)[1].values()
    talk = Talk(segmenter)
    await talk.say("建个待办")
    assert called(await talk.say("买牛奶，面包"))[1] == {"title": "买牛奶，面包"}


@pytest.mark.parametrize(
    ("text", "tool", "title"),
    [("查知识库页面值班表", "wiki_page_read", "值班表"), ("把“周报”写进知识库：本周完成三件事", "wiki_page_write", "周报")],
)
def test_pages_are_called_by_their_names(segmenter: Segmenter, text: str, tool: str, title: str) -> None:
    intent = find_intent(text, OFFERS, segmenter)
    assert intent.best is not None
    assert intent.best.name == tool
    assert fill(text, intent.best, NOW)["title"] == title


@pytest.mark.parametrize("text", ["怎么取消", "怎么建待办？", "如何设提醒"])
async def test_asking_how_starts_nothing(segmenter: Segmenter, text: str) -> None:
    """A question about how to is answered with what can be said, not taken for the order itself."""
    reply = await Talk(segmenter).say(text)
    assert not reply.tool_calls
    assert "直接用一句话说就行" in reply.text


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        (
            "建个待办：周五前交周报，明天上午提醒我",
            "todo_create",
            {"title": "交周报", "due": "2026-08-14T18:00:00+08:00", "remind_at": "2026-08-13T09:00:00+08:00"},
        ),
        (
            "建一个待办，明天下午三点前交报告，中午十二点提醒我",
            "todo_create",
            {"title": "交报告", "due": "2026-08-13T15:00:00+08:00", "remind_at": "2026-08-13T12:00:00+08:00"},
        ),
        ("明天提醒我给张三发消息", "reminder_create", {"text": "给张三发消息", "at": "2026-08-13T09:00:00+08:00"}),
        ("别忘了明天九点提醒我开会", "reminder_create", {"text": "开会", "at": "2026-08-13T09:00:00+08:00"}),
        ("可以明天九点提醒我开会吗？", "reminder_create", {"text": "开会", "at": "2026-08-13T09:00:00+08:00"}),
        ("提醒我不要迟到，明天九点", "reminder_create", {"text": "不要迟到", "at": "2026-08-13T09:00:00+08:00"}),
        ("明天九点提醒我十点开会", "reminder_create", {"text": "十点开会", "at": "2026-08-13T09:00:00+08:00"}),
        (
            "两千零二十六年十二月二十五日上午十点提醒我过节",
            "reminder_create",
            {"text": "过节", "at": "2026-12-25T10:00:00+08:00"},
        ),
    ],
)
async def test_times_are_of_their_own_clause(segmenter: Segmenter, text: str, tool: str, arguments: dict[str, Any]) -> None:
    """Each time goes where its clause says; what is to be reminded of is taken as it is."""
    assert called(await Talk(segmenter).say(text)) == (tool, arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("不要建待办", texts.RULE_NOT_DONE),
        ("我不想建待办", texts.RULE_NOT_DONE),
        ("不要给张三发消息", texts.RULE_NOT_DONE),
        ("我不想取消提醒", texts.RULE_NOT_DONE),
        ("明天九点和后天十点都提醒我开会", texts.RULE_ONE_TIME),
        ("我昨天建了一个待办，你看到了吗？", texts.RULE_UNSURE),
        ("待办3做完了吗？", texts.RULE_UNSURE),
        ("有人删除待办了吗", texts.RULE_UNSURE),
        ("待办太多了怎么办", texts.RULE_UNSURE),
        ("别提醒我开会了", "请告诉我提醒的编号。"),
        ("把待办全删了", "请告诉我待办的编号。"),
        ("能帮我建个待办吗？", "请告诉我标题。"),
    ],
)
async def test_what_was_not_asked_for_is_not_proposed(segmenter: Segmenter, text: str, said: str) -> None:
    """A refusal is no order, a question about a thing no order for one; two times at once are asked for one by one."""
    reply = await Talk(segmenter).say(text)
    assert reply.tool_calls == ()
    assert said in reply.text


async def test_an_answer_that_shares_a_word_with_another_tool_is_the_answer(segmenter: Segmenter) -> None:
    """会议取消了 is what to tell 王五, not an order to cancel; a sentence that names another tool is one."""
    talk = Talk(segmenter)
    await talk.say("给王五发消息")
    assert called(await talk.say("会议取消了")) == ("send_message", {"to": "王五", "text": "会议取消了"})
    await talk.say("给王五发消息")
    assert called(await talk.say("我的待办"))[0] == "todo_list"
