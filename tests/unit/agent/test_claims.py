"""Nothing that waits for its person is said to be done (overview §7.14)."""

from __future__ import annotations

import pytest

from agent.claims import claims_a_write, without_claims


@pytest.mark.parametrize(
    "claim",
    [
        "好的，已经帮你建好待办。",
        "已为您创建待办：周报。",
        "已执行。",
        "已发送！",
        "我已经把 web-01 重启了。",
        "好的，待办建好了。",
        "创建成功！",
        "搞定了",
        "提醒设置成功。",
        "**已完成**：重启 web-01",
        "我已通知张三。",
        "没问题，刚刚给李四发了消息。",
        "消息已发给张三。",
        "会议室已预订，明天九点。",
    ],
)
def test_a_claim_is_left_out(claim: str) -> None:
    """The sentence goes, its neighbours stay."""
    assert without_claims(claim) == ""
    assert without_claims(f"web-01 的内存 92%。{claim}") == "web-01 的内存 92%。"


@pytest.mark.parametrize(
    "text",
    [
        "web-01 的 CPU 使用率为 92%，建议重启。",
        "我来帮你建一个待办，请确认。",
        "请在下面的确认单里确认。",
        "这台机器昨天被重启过两次。",
        "确认之后我会执行。",
        "查到 3 张工单，其中 2 张已经关闭。",
        "要把它删除吗？",
        "完成之前需要你确认。",
        "还没有执行，等你确认。",
        "这件事我没能做完。",
        "已查到 3 条记录：web-01 的 CPU 92%。",
        "我已查看你明天的安排，上午有两个会。",
        "已列出待发送的消息。",
        "已处理的工单有 3 张。",
        "目前已经有两台机器做了备份。",
        "已完成分析：内存偏高。",
    ],
)
def test_everything_else_stays(text: str) -> None:
    """Facts, plans and questions are no claims."""
    assert without_claims(text) == text


@pytest.mark.parametrize(
    "claim",
    [
        "好的，已经帮你建好待办。",
        "已为您创建待办：周报。",
        "已发送！",
        "我已经把 web-01 重启了。",
        "消息发送成功。",
        "我已通知张三。",
        "没问题，刚刚给李四发送了消息。",
        "好的，已设置明天九点的提醒。",
        "**已删除**：待办 3",
        "内存 92%。已重启 web-01。",
        "审批提交好了。",
        "待办已创建。",
        "待办“周报”已创建成功。",
        "审批已提交。",
        "消息已发给张三。",
        "提醒已设置好，明天九点。",
        "会议室已预订。",
        "好的，已经给张三发了消息。",
        "已帮你建了一个待办。",
        "我已经在系统里提交了审批。",
        "已将会议通知发给张三。",
        "已添加到日程。",
    ],
)
def test_a_claim_of_a_write_is_found(claim: str) -> None:
    """A turn in which nothing was called says 已发送."""
    assert claims_a_write(claim, "帮我办一下")


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("已经建好了，已创建待办 3。", "待办建好了吗？"),
        ("已发送。", "消息发了没"),
        ("之前已发送过一次。", "再发一次"),
        ("系统已部署到三台机器。", "介绍一下"),
        ("会议已取消，请大家知悉。", "帮我写条通知"),
        ("通知文案如下：已重启服务器。", "写个通知"),
        ("“已发送”表示消息到了服务器。", "已发送是什么意思"),
        ("查到 3 张工单，其中已关闭 2 张。", "看看工单"),
        ("如果已提交审批，就等结果。", "然后怎么办"),
        ("还没有发送，等你确认。", "发给张三"),
        ("我来帮你建一个待办，请确认。", "建待办"),
        ("web-01 的 CPU 使用率为 92%，建议重启。", "看看"),
        ("已查到 3 条记录。", "查一下"),
        ("我已经整理好了要点。", "整理一下"),
        ("待办 #3 已取消。", "看看待办"),
        ("他已经提交了周报。", "张三呢"),
        ("你好！有什么可以帮你？", "你好"),
        ("已经晚上十点了，早点休息。", "在吗"),
        ("部署成功的标志是健康检查通过。", "怎么看部署好了"),
        ("已为你整理好今天的安排。", "看看安排"),
        ("我已收到您的通知。", "通知：明天停电"),
        ("已经了解您的安排。", "我下午都在开会"),
        ("已为您查询到张三的部署记录。", "查部署"),
        ("已列出待发送的消息。", "列一下"),
        ("已汇总本周的预约情况。", "汇总"),
        ("已读完您发送的内容。", "看完了吗，说说"),
        ("已停用的账号有三个。", "看账号"),
        ("已关闭工单共 12 个。", "工单"),
        ("已发送消息 12 条，失败 1 条。", "群发情况"),
        ("刚刚重启过的机器是 web-01。", "哪台"),
        ("我已经准备好发送，等你确认。", "发"),
        ("好的，文案写好了。", "写个文案"),
    ],
)
def test_reports_drafts_and_answers_are_no_claims(text: str, question: str) -> None:
    """What happened before, what somebody else did, what is quoted or drafted."""
    assert not claims_a_write(text, question)


def test_what_a_tool_told_is_no_claim() -> None:
    """A line of a log that reads 已部署 is the log's."""
    log = "日志最近的：\n已部署 v2 到 web-01。\n已重启 web-01。"
    assert not claims_a_write("找到了：\n已部署 v2 到 web-01。", "看看部署日志", [log])
    assert claims_a_write("已部署 v3 到 web-01。", "看看部署日志", [log])
    assert not claims_a_write("审批已提交，等张三批。", "看看审批", ["审批：等张三批"])
