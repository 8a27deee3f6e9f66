"""Everything the tools and confirmations say to a person, in one place."""

from __future__ import annotations

# Problems with arguments (tools/schema.py). {name} is the field, {given} what was passed, {expected} what fits.
PROBLEMS = {
    "unknown_field": "没有“{name}”这个参数",
    "missing": "缺少参数“{name}”",
    "type": "“{name}”应为{expected}，收到的是{given}",
    "enum": "“{name}”只能是：{expected}",
    "const": "“{name}”只能是：{expected}",
    "minimum": "“{name}”不能小于 {expected}",
    "maximum": "“{name}”不能大于 {expected}",
    "exclusive_minimum": "“{name}”必须大于 {expected}",
    "exclusive_maximum": "“{name}”必须小于 {expected}",
    "multiple_of": "“{name}”必须是 {expected} 的倍数",
    "min_length": "“{name}”至少要 {expected} 个字",
    "max_length": "“{name}”最多 {expected} 个字",
    "pattern": "“{name}”的格式不对",
    "too_slow": "“{name}”太长，无法核对格式",
    "format": "“{name}”应为{expected}",
    "min_items": "“{name}”至少要 {expected} 项",
    "max_items": "“{name}”最多 {expected} 项",
    "unique_items": "“{name}”里有重复的项",
    "contains": "“{name}”里符合要求的项的数量不对",
    "min_properties": "“{name}”至少要 {expected} 个字段",
    "max_properties": "“{name}”最多 {expected} 个字段",
    "dependency": "填了“{given}”就必须有“{name}”",
    "not_allowed": "“{name}”的值不允许",
    "any_of": "“{name}”不符合任何一种写法",
    "one_of": "“{name}”同时符合多种写法，分不清是哪一种",
    "too_complex": "参数太复杂，没有核对完",
    "not_an_object": "参数应为一个 JSON 对象",
    "bad_json": "参数不是有效的 JSON",
    "duplicate_key": "参数里“{name}”出现了两次",
    "not_finite": "参数里有不是数字的数（NaN 或无穷大）",
    "too_large": "参数太大",
    "too_deep": "参数嵌套太深",
    "never": "“{name}”不能填",
}
SUGGEST_NAME = "是不是“{name}”？"
SUGGEST_VALUES = "可选：{values}"
ARGUMENTS = "参数"
TYPE_WORDS = {
    "string": "文字",
    "integer": "整数",
    "number": "数字",
    "boolean": "是或否",
    "array": "列表",
    "object": "对象",
    "null": "空",
}
OR = "或"
GIVEN_WORDS = TYPE_WORDS | {"number": "小数"}  # a number that is no whole one
FORMAT_WORDS = {
    "date": "日期，如 2026-01-31",
    "time": "时间，如 09:30:00",
    "date-time": "日期和时间，如 2026-01-31T09:30:00+08:00",
    "email": "邮箱地址",
    "ipv4": "IPv4 地址",
    "ipv6": "IPv6 地址",
    "uuid": "UUID",
}

# The confirmation prompt (tools/prompt.py).
PROMPT_TITLE = "即将执行以下操作，请确认"
PROMPT_DO = "操作：{title}"
PROMPT_ARGUMENT = "{label}：{value}"
PROMPT_ANSWER = "回复「确认 {number}」执行，回复「取消 {number}」放弃（{minutes} 分钟内有效）"
PROMPT_ANSWER_CODE = "高风险操作：回复「确认 {number} {code}」执行，回复「取消 {number}」放弃（{minutes} 分钟内有效）"
PROMPT_CHANGED = "（替换 #{number}，原来的不再有效）"
PROMPT_BEFORE = {
    "confirmed": "（注意：同样的操作 #{number} 刚才已经确认，正在执行）",
    "executing": "（注意：同样的操作 #{number} 刚才已经确认，正在执行）",
    "succeeded": "（注意：同样的操作 #{number} 不久前已经执行过）",
    "unknown": "（注意：同样的操作 #{number} 执行中断，结果不明，可能已经生效）",
    "needs_human": "（注意：同样的操作 #{number} 执行中断，结果不明，可能已经生效）",
}
PROMPT_TOO_LONG = "这个操作的内容太长，没法在一条确认消息里完整给你看，所以没有继续。请缩短内容再试。"
TOO_MANY_OPEN = "等确认的操作已经有 {count} 项，没有再提出新的。请先处理这些：回复「待确认」查看，「全部取消」放弃全部。"
OVERTAKEN = "#{number} 刚才已经有了决定，所以没有再提出：{summary}。还需要的话请再告诉我一次。"
BUTTON_YES = "确认"
BUTTON_NO = "取消"
YES = "是"
NO = "否"
EMPTY = "（空）"

# What comes of a call (tools/registry.py).
UNKNOWN_TOOL = "没有“{name}”这个工具。"
UNKNOWN_TOOL_NEAR = "没有“{name}”这个工具，是不是“{near}”？"
DENIED = "你没有使用「{title}」的权限，没有执行。"
NOT_TRUSTED = "这个账号没有开启加密，不能使用工具。"
INVALID = "「{title}」没有执行，参数不对：{problems}。请补充或更正。"
FAILED = "「{title}」没有成功：{reason}"
FAILED_REASON = "内部出错"
TIMED_OUT = "超时没有结果"
DEFERRED = "「{title}」要跑一会儿，已经排队，完成后把结果告诉用户。"
AWAITING = "已生成待确认操作 #{number}（{summary}），还没有执行，等用户本人确认。不要说已完成。"
NOT_FITTING = "参数的写法不对"
SUMMARY_MISSING = "「{title}」已返回结果，但没有可用的摘要。"

# Decisions (tools/confirm.py).
NOTHING_OPEN = "现在没有等你确认的操作。"
NOT_YOURS = "这项操作只能由发起的人确认或取消，没有执行。"
CHOOSE = "有 {count} 项等你确认，请带上编号回复，例如「{example}」：\n{lines}"
CHOOSE_EXAMPLES = {"confirm": "确认 {number}", "reject": "取消 {number}", "edit": "{number} 改成{said}"}
ONE_BY_ONE = "为了安全，确认要一项一项来，请带上编号回复，例如「{example}」：\n{lines}"
OPEN_TITLE = "等你确认的操作："
OPEN_LINE = "#{number} {summary}（还剩 {minutes} 分钟）"
OPEN_HOW = "回复「确认 编号」执行，「取消 编号」放弃，「全部取消」放弃全部。"
FOOTER = "另有 {count} 项等你确认：{summary}（还剩 {minutes} 分钟）。回复「确认 {number}」或「取消 {number}」"
FOOTER_SEVERAL = (
    "另有 {count} 项等你确认，最新一项：{summary}（还剩 {minutes} 分钟）。"
    "回复「确认 {number}」或「取消 {number}」，「待确认」看全部"
)
SHOW_AGAIN = "请先看清这一项，再回复："
NEED_CODE = "这是高风险操作，需要带上确认码：请照确认消息里的写法回复「确认 {number} 四位码」。"
WRONG_CODE = "确认码不对，没有执行。请照确认消息里的写法回复。"
TOO_MANY_CODES = "确认码多次不对，已撤回，没有执行：{summary}\n需要的话请回复「重新发起」，会给你新的确认码。"
NO_SUCH_NUMBER = "没有编号为 {number} 的待确认操作。"
REJECTED = "已取消，没有执行：{summary}"
REJECTED_ALL = "已取消 {count} 项，都没有执行。"
WRONG_MENU = "这个选项属于另一项操作，没有执行。"
CARD_UNKNOWN = "已过期，未执行。"
REISSUE_NOTHING = "没有可以重新发起的操作。"
EDIT_NONE_FITS = "没看懂要改哪一项，请说清楚，例如「{label}改成…」。"
EDIT_ANY_FIELD = "内容"

STATES = {
    "draft": "还没有发出确认，没有执行：{summary}",
    "pending": "还在等你确认：{summary}",
    "confirmed": "已确认，正在执行：{summary}",
    "executing": "正在执行：{summary}",
    "succeeded": "这项已经执行过了，不会重复执行。结果：{result}",
    "failed": "这项没有成功：{result}",
    "unknown": "这项的结果还不清楚，正在核实：{summary}",
    "needs_human": "这项的结果没能核实，请人工检查：{summary}",
    "rejected": "这项已经取消，没有执行：{summary}",
    "expired": "已过期，没有执行。回复「重新发起」再确认一次",
    "withdrawn": "这项已撤回，没有执行：{summary}",
    "superseded": "这项已经被新的内容替换，没有执行：{summary}",
}
BUTTON_STATES = {
    "confirmed": "已确认",
    "executing": "已确认",
    "succeeded": "已执行",
    "failed": "未成功",
    "unknown": "核实中",
    "needs_human": "待核实",
    "rejected": "已取消",
    "expired": "已过期",
    "withdrawn": "已撤回",
    "superseded": "已替换",
}

# Outcomes (tools/actions.py).
OUTCOME_FAILED = "没有成功：{summary}\n原因：{reason}"
OUTCOME_WITHDRAWN = "没有执行：{summary}\n原因：{reason}"
OUTCOME_UNKNOWN = "执行中断，结果不明：{summary}\n我不会自动重做。请先核实，确实没有执行再重新告诉我。"
OUTCOME_NOT_DONE = "没有执行：{summary}\n执行中断，已核实没有生效，可以重新告诉我。"
OUTCOME_DONE_CHECKED = "已执行（执行中断过，已核实生效）：{summary}"
OUTCOME_EXPIRED = "「{summary}」没有等到确认，已过期，没有执行。回复「重新发起」再确认一次"
OUTCOME_UNSEEN = "「{summary}」的确认消息没能及时发给你，已撤回，没有执行。回复「重新发起」再确认一次"
OUTCOME_UNCLAIMED = "确认后系统没能及时执行，已撤回，没有执行：{summary}\n需要的话请重新告诉我。"
REASON_TOOL_GONE = "这个工具已经停用或更新"
REASON_DENIED = "你现在没有这个权限"
REASON_CHANGED = "参数和你确认的不一致"
REASON_INVALID = "参数已不再有效：{problems}"
APPROVAL_UNAVAILABLE = "这个账号不能提交审批。"

# Builtin tools.
WEEKDAYS = "一二三四五六日"
ON_WEEKDAY = "（周{weekday}）"
TIME_BAD = "时间“{value}”看不懂，请写成 2026-01-31 09:30 这样。"
TIME_PAST = "“{value}”已经过去了，请换一个以后的时间。"
NO_PUSH = "这个账号不能主动发消息，到点提醒不了你，所以没有设提醒。可以只建待办，回复「我的待办」随时查看。"
TODO_MADE = "已建待办 #{number}：{title}{times}"
TODO_LINK = "\n查看：{url}"
TODO_DUE = "，截止 {time}"
TODO_REMIND = "，{time}提醒你"
TODO_NONE = "没有{state}待办。"
TODO_STATES = {"open": "未完成的", "done": "已完成的", "all": ""}
TODO_LIST = "{state}待办共 {count} 项：\n{lines}"
TODO_LIST_NEWEST = "{state}待办共 {count} 项，最近的 {shown} 项：\n{lines}"
TODO_LINE = "#{number} {title}{due}"
TODO_FINISHED = "待办 #{number} 已完成：{title}"
TODO_DELETED = "待办 #{number} 已删除：{title}"
TODO_REMINDER_ENDED = "。它的提醒也取消了"
TODO_MISSING = "没有编号为 {number} 的待办。"
TODO_ALREADY = "待办 #{number} 早就完成了：{title}"
PAGE_TITLE = "待办 #{number}"
PAGE_GONE_TITLE = "这个链接打不开了"
PAGE_GONE = "链接可能不完整、已经失效，或者对应的待办已被删除。回到聊天里发「我的待办」，可以随时查看。"
PAGE_OPEN = "未完成"
PAGE_DONE = "已完成"
PAGE_DUE = "截止"
PAGE_MADE = "创建"
PAGE_NOTE = "链接仅供本人查看，{time} 失效。"
REMINDER_MADE = "已设提醒 #{number}：{time}{repeat}提醒你“{text}”"
REMINDER_REPEATS = {
    "none": "",
    "daily": "起，每天",
    "weekdays": "起，每个工作日",
    "weekly": "起，每周",
    "monthly": "起，每月",
}
REMINDER_ONCE = "一次"
REMINDER_NONE = "没有等着的提醒。"
REMINDER_LIST = "提醒共 {count} 条：\n{lines}"
REMINDER_LIST_NEXT = "提醒共 {count} 条，最先到的 {shown} 条：\n{lines}"
REMINDER_LINE = "#{number} {time}{repeat} {text}"
REMINDER_CANCELLED = "已取消提醒 #{number}：{text}"
REMINDER_MISSING = "没有编号为 {number} 的提醒。"
REMINDER_DUE = "提醒：{text}"
REMINDER_MISSED = "提醒（原定 {time}，系统停了一阵，来晚了）：{text}"
REMINDERS_MISSED = "系统停了一阵，有 {count} 条提醒来晚了：\n{lines}"
REMINDER_MISSED_LINE = "· {time} {text}"
REMINDER_LATE = "提醒（晚了 {minutes} 分钟）：{text}"
NOTIFY_QUEUED = "已交给「{title}」发送。"
MESSAGE_QUEUED = "已交给系统发给{who}。"
MESSAGE_FROM = "{sender} 让我转告你：\n{text}"
DEPARTMENT = "部门 {number}"
MESSAGE_NOBODY = "通讯录里没有找到“{name}”，请告诉我完整姓名或账号。"
MESSAGE_SEVERAL = "有 {count} 位{name}，是哪一位？"
MESSAGE_NO_DIRECTORY = "这个账号不能给同事发消息。"
APPROVAL_SENT = "审批已提交，单号 {sp_no}。"
WIKI_BAD_TITLE = "页面标题不能为空、不能以点开头，也不能有斜杠等特殊符号。"
WIKI_MISSING = "知识库里没有《{title}》。回复「知识库目录」看有哪些页面。"
WIKI_MISSING_NEAR = "知识库里没有《{title}》，相近的有：{near}。"
WIKI_EXISTS = "知识库里已有《{title}》，要改请说更新。"
WIKI_READ = "《{title}》：\n{text}"
WIKI_WRITTEN = {
    "create": "已新建页面《{title}》。",
    "update": "已更新页面《{title}》。",
    "append": "已在页面《{title}》末尾追加。",
}
WIKI_LIST = "知识库共 {count} 页：{titles}"
WIKI_EMPTY = "知识库还没有页面。"
HERE = "本机"
THERE = " {host} "
SCRIPT_DONE = "脚本「{preset}」在{host}上运行完成。{output}"
SCRIPT_OUTPUT = "输出：\n{text}"
SCRIPT_EXIT = "脚本「{preset}」在{host}上没有正常结束（退出码 {code}）。{output}"
SCRIPT_NOT_FOUND = "本机没有程序 {program}。"
SCRIPT_BAD_ARGUMENT = "参数“{name}”不能以减号开头，也不能有控制字符。"
SSH_FAILED = "连不上 {host}（ssh）。"
STATUS_LINE = "服务器{host}的CPU使用率为{cpu}%，内存使用率为{memory}%，磁盘使用率为{disk}%{verdict}。"
STATUS_ALL_HIGH = "，均超过{limit}%告警阈值"
STATUS_HIGH = "，其中{names}超过{limit}%告警阈值"
STATUS_FINE = "，均未超过{limit}%告警阈值"
STATUS_NAMES = {"cpu": "CPU", "memory": "内存", "disk": "磁盘"}
STATUS_TOP = "占用最高的进程：{names}。"
STATUS_UNREADABLE = "读不到{host}的状态。"
LOG_MISSING = "日志「{source}」的文件读不到。"
LOG_FOUND = "日志「{source}」最近 {tail} 行中有 {count} 行{what}。{last}"
LOG_WITH = "包含“{keyword}”"
LOG_ANY = "内容"
LOG_LAST = "最近的：\n{lines}"
HTTP_STATUS = "对方系统返回错误（HTTP {status}）。"
HTTP_UNREACHABLE = "连不上对方系统。"
HTTP_BAD_BODY = "对方系统的回答看不懂。"
HTTP_TOO_LARGE = "对方系统的回答太大。"
HTTP_REFUSED = "这个地址不允许访问。"
EGRESS_REFUSED = "这个地址不在允许访问的范围内。"
EGRESS_FAILED = "没能取到这个地址的内容，请稍后再试。"
BATCH_EMPTY = "没有文件符合“{pattern}”。"
BATCH_LISTED = "有 {count} 个文件符合“{pattern}”，共 {size}。{names}"
BATCH_ZIPPED = "已把 {count} 个文件打包为 {archive}。"
NOT_GIVEN = "未提供"
CHOICE = "选 {number}"
STOP_TOO_LATE = "“{summary}”已经在执行，拦不住了，有结果会告诉你。"
CHOICES = "{question}\n{lines}\n回复 {answers}"
CHOICE_DROPPED = "好的，先不做了。"
CHOICE_NONE = "现在没有可以选的项，或者编号不在范围内。"
QUOTED_LINE = "（助手的话，不是确认请求）"
