"""What the gateway itself says to people, in one place."""

from __future__ import annotations

TOO_MUCH = "现在人多，这条没收下，请过几分钟再发。"
RECEIPT = "好的，正在处理，完成后通知你。"
QUEUED = "排队中，前面 {ahead} 条，轮到就处理，完成后通知你。"
PULL_PLACEHOLDER = "正在处理“{question}”，稍后回复「继续」查看。"
STILL_RUNNING = "还在处理：{question}，已 {age_s} 秒。完成后回复「继续」查看。"
STILL_RUNNING_PUSH = "还在处理：{question}，已 {age_s} 秒。完成后通知你。"
NOTHING_PARKED = "没有等你查看的内容。"
APOLOGY = "抱歉，“{question}”没能完成。回复「重试」再来一次。"
APOLOGY_EMPTY = "抱歉，刚才没能完成。回复「重试」再来一次。"
UNSUPPORTED = "这种消息（{name}）我还看不懂，请发文字给我。"
MENU_UNKNOWN = "这个菜单还没有设置内容，直接把要办的事发给我就行。"
QUESTION_CHARS = 20


def quote(question: str, limit: int = QUESTION_CHARS) -> str:
    """The first characters of what somebody wrote, on one line, for quoting it back."""
    flat = " ".join(question.split())
    return flat if len(flat) <= limit else flat[:limit] + "…"


CONTINUE_HINT = "回复「继续」看后面的内容"
"""Ends a page when more is parked behind it."""


def about(question: str) -> str:
    """The line that says which question a late answer belongs to (OA5-16)."""
    return f"关于：{quote(question)}"

ALERT = "【{account}】{text}"
"""An alert to an operator."""
STUCK_ON_OPERATOR = "之前的回答已经准备好，但平台暂时不让发送，管理员已收到通知，恢复后会自动发给你。"
PULL_ONLY = "这个账号没有客服消息权限（48001），已改为被动回复加「继续」查看，之后的回答不再主动推送。"
NO_SIMPLER_FORM = "平台拒绝了一条消息：{code}，也没有更简单的形式可发，未重试。"
MORE_PARTS = "\n（还有 {remaining} 条，回复「继续」查看）"
"""Ends the last message of a page when more pages wait."""
PUSH_BAD_JSON = "请求体不是 JSON"
PUSH_BAD_FIELD = "字段 {field} 不合要求"
