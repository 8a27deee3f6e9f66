"""Chinese texts of the WeCom channel."""

from __future__ import annotations

OPERATOR_HINTS = {
    40001: "应用的 Secret 不对或已被重置：在管理后台「应用管理」里重新查看 Secret，更新配置后重启。",
    40013: "企业 ID（corp_id）不对：在管理后台「我的企业」页面最下方核对。",
    40091: "这个 Secret 属于别的企业：请核对 corp_id 和 secret 是否来自同一家企业。",
    41004: "请求里没有 Secret：请检查账号的 secret 配置。",
    40056: "AgentID 不对：在管理后台该应用的页面上核对 agent_id。",
    43012: "应用还没有配置回调地址：先在「接收消息」里保存回调 URL，再发送按钮卡片。",
    45031: "企业微信认为这个 Secret 不够安全：请在管理后台重置 Secret。",
    48002: "应用没有调用这个接口的权限：请在管理后台检查应用的 API 权限。",
    48006: "应用太久未使用，接口权限被收回：请在管理后台重新启用。",
    50003: "应用已被停用：请在管理后台启用该应用。",
    60011: "接收人不在应用的可见范围：请在管理后台把成员加入可见范围。",
    60020: "请把出口 IP {ip} 加到应用的「企业可信 IP」，约一分钟后生效。",
    93000: "群机器人的 Webhook 地址无效，或机器人已被移出群。",
    93004: "群机器人已被停用。",
    93008: "群机器人不在群里。",
    301002: "AgentID 与 Secret 不属于同一个应用：请核对 agent_id 和 secret。",
    2000002: "企业 ID（corp_id）不存在：请核对。",
}

AI_LABEL = "（内容由 AI 生成）"
MEDIA_NOTICE = "（{kind}「{name}」没能发送，请到原系统查看。）"
MEDIA_LINK = "{kind}「{name}」：{url}"
CARD_REPLACED = "已处理"
