"""Nothing that waits for its person is said to be done (overview §7.14)."""

from __future__ import annotations

import pytest

from agent.claims import without_claims


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
    ],
)
def test_everything_else_stays(text: str) -> None:
    """Facts, plans and questions are no claims."""
    assert without_claims(text) == text
