"""What the operators' commands print; the words of their options stand where the options are declared."""

from __future__ import annotations

NO_ACCOUNT = "设置里没有账号 {account}；有的是：{known}"
NONE_AT_ALL = "（一个也没有，先 yizhan init）"
NO_DATA = "这里还没有数据：先启动一次（yizhan up 或 yizhan migrate）"
SETTINGS_BAD = "设置有误：{error}"
SETTINGS_NOTE = "设置：{warning}"
FAILED = "没有成功（{code}）：{error}"
FAILED_FILE = "没有成功：{file} 不能读写：{reason}（检查权限、磁盘空间，或换一个目录）"
FAILED_DATABASE = "没有成功：数据库文件已损坏，或不是数据库（{reason}）；yizhan migrate 会说怎么处理"
INIT_NEXT = """\
已写好 {path}（只有你能读）。接下来：
  1. 打开它，填上 {missing}
  2. {connect}：一步一步接上平台，每一步完成会打勾
  3. yizhan up 启动；yizhan doctor 随时检查
只想先看看：./scripts/run，不需要任何账号。"""
INIT_REFUSED = "没有写文件，先改好这些值：{error}"
INIT_MISSING = {"corp_id": "企业ID", "agent_id": "AgentId", "secret": "应用的 Secret"}
INIT_MISSING_MP = {"app_id": "公众号的 AppID", "app_secret": "公众号的 AppSecret"}

KEY_STATES = {"active": "有效", "expired": "已过期", "revoked": "已吊销"}
KEY_TENANT = "--tenant 要填设置里的租户：{names}"
KEY_NO_TENANT = "（一个也没有）"
KEY_ACCOUNT = "租户 {tenant} 没有账号 {unknown}；有：{known}"
KEY_RATE = "--rate 至少是 1"
KEY_SAVE = "请现在保存，以后不再显示。开头 {prefix}，{limits}"
KEY_NEVER_USED = "从未使用"
KEY_USED = "最近使用 {when}"
KEY_LINE = "{prefix}  {state}  {tenant}  {name}  {limits}，{used}"
KEY_NO_NAME = "（无名）"
KEY_NONE = "还没有密钥：yizhan keys create"
KEY_UNKNOWN = "没有这样的密钥"
KEY_SEVERAL = "有 {count} 把密钥以此开头，请写全：{prefixes}"
KEY_REVOKED = "{prefix} 已吊销，立即生效"
KEY_REVOKED_BEFORE = "{prefix} 早已吊销"
KEY_EXPIRES_FORM = "--expires 写 30d、12h，或带时区的时刻，如 2026-12-31T23:59:59+08:00"
KEY_EXPIRES_PAST = "--expires 已经过去"
KEY_ALL_ACCOUNTS = "全部账号"
KEY_NO_EXPIRY = "不过期"
KEY_UNTIL = "到 {when}"
KEY_LIMITS = "权限 {scopes}，{accounts}，{until}，每分钟 {rate} 人"

MENU_HEAD = """\
# {account} 的菜单和自动回复，{when} 从平台保存。
# menu：yizhan menu publish {account} 这个文件，就能放回去。
# replies、welcome_text：平台自己的自动回复，启用服务器配置后不再生效；想保留的抄进设置里该账号的 replies、welcome.text。
# original：平台的原话，留作备查。
"""
MENU_NOT_YAML = "第 {line} 行不是有效的 YAML"
MENU_NO_LIST = "里面没有 menu.button 列表"
MENU_EXISTS = "{path} 已经有了，没有覆盖；要覆盖加 --force，或写到别的文件"
MENU_SAVED = "已存到 {path}。放回去：yizhan menu publish {account} {path}"
MENU_UNREADABLE = "读不了 {file}：{reason}"
MENU_NO_TEXT = "不是 UTF-8 文本"
MENU_PUBLISHED = "已发布到 {account}（{count} 个一级菜单{late}）"
MENU_LATE = "；已关注的人最迟 24 小时后看到，重新关注立刻看到"
MENU_READ_REPLIES = "读自动回复"
MENU_READ = "读菜单"
MENU_PUBLISH = "发布菜单"
MENU_UNREACHABLE = "{what}没有成功：连不上平台（{reason}）"
MENU_REFUSED = "{what}没有成功：平台答 {errcode}（{errmsg}）。{fix}"

OUTBOX_NOTHING = "发件箱是空的"
OUTBOX_DUE = "，下次 {when}"
OUTBOX_LINE = "{seq:>8}  {made}  {state}  {account} → {who}  {kind} {part}  试过 {attempts} 次{due}{reason}"
OUTBOX_RETRIED = "已重新排队 {count} 条"
OUTBOX_DROPPED = "已丢弃 {count} 条"
OUTBOX_WHICH = "请给出行号，或 --state 指定一个状态（二选一）"
OUTBOX_REST = "其余 {count} 条不存在，或不在这些状态：{states}"

PUSH_NOT_SENT = "没有发：{reason}{place}。{fix}"
PUSH_PLACE = "（{field}）"
PUSH_NO_TEXT = "没有发：给的文件不是 UTF-8 文本"
PUSH_UNREADABLE = "读不了 {file}：{reason}"
PUSH_WHOM = "要说清发给谁"
PUSH_WHOM_FIX = "选一种：--user/--users-file、--department、--tag、--conversation、--all"
PUSH_ALL = "发给全部成员要同时写 --yes"
PUSH_ONE_KIND = "一次只发一种"
PUSH_ONE_KIND_FIX = "--image、--file、--voice、--message 选一个"
PUSH_NOT_JSON = "{file} 不是 JSON"
PUSH_NOTHING = "没有内容"
PUSH_NOTHING_FIX = "写上文字，或用 --file、--image、--message"
PUSH_ACCEPTING = "已受理"
PUSH_DELIVERING = "已送达"
PUSH_ACCEPTED = "已受理 {count} 个目标，推送号 {ids}{more}"
PUSH_AND_MORE = " 等"
PUSH_MORE = "  … 还有 {count} 个，用 --json 看全部"
PUSH_ACCOUNTS = "设置里有：{names}"
PUSH_NO_ACCOUNTS = "（没有账号）"

TOOL_CLASSES = {"read": "查询", "operation": "操作", "script": "脚本"}
TOOL_ASKS = "先确认"
TOOL_RUNS = "直接执行"
TOOL_EVERYBODY = "所有人"
TOOL_EMPLOYEES = "员工"
TOOL_LINE = "{name}  {title}  {kind}，{ask}  {who}  {description}"
TOOL_UNKNOWN = "没有工具 {name}，`yizhan tools list` 列出全部"
TOOL_HIGH_RISK = "，高风险（要确认码）"
TOOL_SHOWN = "{name}（{title}）\n{description}\n类别：{kind}，{ask}{risk}\n谁能用：{who}\n超时：{timeout_s:g} 秒"
TOOL_NO_ACCOUNT = "没有这个账号；工具总是以某个账号里的某个人的身份运行"
TOOL_MUST_AGREE = "要确认才会执行：在终端里运行，或加 --yes"
TOOL_AGREE = "执行吗？输入 yes："
TOOL_NO_TENANT = "设置里没有租户 {tenant}"

USAGE_NAMES = {"day": "日期", "route": "线路", "person": "人"}
USAGE_COLUMNS = ("轮数", "失败", "模型调用", "工具调用", "输入词元", "输出词元", "费用")
USAGE_BAD = "--by 只能是 day、route、person，--days 至少为 1"
USAGE_NONE = "这段时间没有用量。"
USAGE_TOTAL = "合计"
