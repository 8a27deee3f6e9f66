"""What the gateway itself says to people, in one place."""

from __future__ import annotations

TOO_MUCH = "现在人多，这条没收下，请过几分钟再发。"
RECEIPT = "好的，正在处理，完成后通知你。"
WORK_RUNNING, WORK_QUEUED = "处理中", "排队中"
JOB_NAMES = {"doctor": "诊断", "action": "确认过的操作", "tool": "查询"}
QUEUED = "排队中，前面 {ahead} 条，轮到就处理，完成后通知你。"
PULL_PLACEHOLDER = "正在处理“{question}”，稍后回复「继续」查看。"
STILL_RUNNING = "还在处理：{question}，已 {age_s} 秒。完成后回复「继续」查看。"
STILL_RUNNING_PUSH = "还在处理：{question}，已 {age_s} 秒。完成后通知你。"
COMING = "后面的内容这就发给你。"
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


OFFER = "回复「继续」"
CONTINUE_HINT = f"{OFFER}看后面的内容"
"""Ends a page when more is parked behind it."""


def about(question: str) -> str:
    """The line that says which question a late answer belongs to (OA5-16)."""
    return f"关于：{quote(question)}"


ALERT = "【{account}】{text}"
"""An alert to an operator."""
STALE_CALLBACK = (
    "收到签名正确但时间不对的回调：按这台机器的时钟，它{direction}了 {skew_s} 秒（允许 {max_age_s} 秒），没有处理。"
    "请先校准这台机器的时间（NTP）；时钟没有问题的话，可能有人在重放旧回调。"
)
CLOCK_FAST = "晚到"
CLOCK_SLOW = "早到"
STUCK_ON_OPERATOR = "之前的回答已经准备好，但平台暂时不让发送，管理员已收到通知，恢复后会自动发给你。"
PULL_ONLY = "这个账号没有客服消息权限（48001），已改为被动回复加「继续」查看，之后的回答不再主动推送。"
QUOTA_USED = "平台说调用次数用完（{errcode}），{back} 自动恢复，消息不会丢。"
CHECK_PERMISSIONS = "请在管理后台检查应用的权限和配置。"
EGRESS_IP = "（出口 IP：{address}）"
NOT_DELIVERABLE = "消息发不出去：{errcode}。{hint}{address}"
UNKNOWN_ERRCODE = "（未收录的错误码）"
REFUSED_MESSAGE = "平台拒绝了一条消息：{code}，未重试。"
NO_SIMPLER_FORM = "平台拒绝了一条消息：{code}，也没有更简单的形式可发，未重试。"
MORE_PARTS = "\n（还有 {remaining} 条，回复「继续」查看）"
"""Ends the last message of a page when more pages wait."""
PUSH_BAD_JSON = "请求体不是 JSON"
PUSH_BAD_BASE64 = "文件内容不是 base64"
PUSH_BAD_BASE64_FIX = "content_base64 用标准 base64（不带换行和前缀）"
PUSH_BAD_MOMENT = "要写带时区的时刻，例如 2026-03-01T09:00:00+08:00"
PUSH_BAD_FIELD = "字段 {field} 不合要求"
PUSH_KEY_REUSED = "这个 idempotency_key 已经用于另一条内容"
PUSH_KEY_REUSED_FIX = "换一个 key，或重复发送完全相同的请求"
PUSH_NO_ACCOUNT = "没有这个账号，或这把密钥不能用它"
PUSH_NO_ACCOUNT_FIX = "account 填设置里的账号 id，并检查密钥的 --account"
PUSH_KIND = "这个账号发不了这种消息"
PUSH_KIND_FIX = "可用的 kind：{kinds}"
PUSH_MP_TARGET = "公众号只能发给具体的人"
PUSH_MP_TARGET_FIX = "to 用 users（openid）或 conversation"
PUSH_EXPIRED = "expires_at 已经过去"
PUSH_EXPIRED_FIX = "毫秒时间戳（13 位），或带时区的 ISO 8601"
PUSH_EMPTY = "消息没有可发送的内容"
PUSH_EMPTY_FIX = "检查 message 的各字段"
PUSH_NO_CONVERSATION = "没有这个会话"
PUSH_NO_CONVERSATION_FIX = "会话 id 可在 yizhan trace 里看到"
PUSH_NO_KEY = "需要有效的 API 密钥"
PUSH_NO_KEY_FIX = "请求头 Authorization: Bearer yzk_...；密钥用 yizhan keys create 生成"
PUSH_NO_SCOPE = "这把密钥没有权限 {scope}"
PUSH_NO_SCOPE_FIX = "yizhan keys create --scope {scope} 生成一把有此权限的密钥"
PUSH_TOO_FAST = "超过了这把密钥每分钟 {limit} 个接收者"
PUSH_TOO_FAST_FIX = "{seconds} 秒后再发"
PUSH_TOO_LARGE = "请求体太大"
PUSH_TOO_LARGE_FIX = "不超过 4 MB；更大的文件先上传到平台，用 media_id"
PUSH_NOT_FOUND = "没有这个推送"

OUTBOX_STATES = {
    "passive_reserved": "等待被动回复",
    "pending": "等待发送",
    "sending": "发送中",
    "sent": "已发送",
    "parked": "暂存",
    "unknown": "结果未知",
    "expired": "已过期",
    "cancelled": "已取消",
    "dead": "失败",
}
PARK_REASONS = {
    "pull": "账号不能主动推送，对方回复「继续」时给出",
    "more": "后面的内容，对方回复「继续」时给出",
    "window": "平台的可发送窗口已关闭，对方下次发消息时送达",
    "quota": "额度用完，稍后送达",
    "operator": "需要管理员处理账号配置，恢复后自动发送",
    "blocked": "前一部分结果未知，对方下次发消息时送达",
}
ERRCODES = {
    81013: "接收者不存在，或不在应用的可见范围",
    60111: "没有这个成员",
    40003: "接收者 id 不合法",
    43004: "对方没有关注公众号",
    45015: "对方超过 48 小时没有互动",
    45047: "对方下次发消息前的条数已用完",
    48001: "账号没有客服消息权限",
    60020: "出口 IP 不在企业可信 IP 里",
    40164: "出口 IP 不在公众号的 IP 白名单里",
}
"""What an errcode means for the one who asked for the push; others are shown with the platform's own words."""

TOKEN_CONTENTION = "有别的程序也在刷新这个账号的 access_token，互相挤掉；请让它改用 stable_token，或只留一处。"  # noqa: S105 -- a sentence
TOKEN_FAILED = "取不到 access_token：平台答 {errcode}（{errmsg}）。{hint}"  # noqa: S105

AI_LABEL = "（内容由 AI 生成）"
MEDIA_WORDS = {"image": "图片", "voice": "语音", "video": "视频"}
MEDIA_FILE = "文件"
MEDIA_UNREADABLE = "这个文件我没法读取，请发文字或图片给我。"
MEDIA_NOTICE = "（{kind}「{name}」没能发送，请到原系统查看。）"
MEDIA_LINK = "{kind}「{name}」：{url}"
