"""Every sentence the assistant itself says to a person."""

from __future__ import annotations

RULE_NOTICE_USER = "我没接大模型，只会几件固定的事：待办、提醒、查记录。回复「帮助」"
RULE_NOTICE_CUSTOMER = "我没接大模型，只能回答常见问题。回复「帮助」"
RULE_UNSURE = "这件事我没看懂，也不想乱猜。"
RULE_CAN_DO = "我现在能帮你：\n{lines}\n直接用一句话说就行，例如{examples}。"
RULE_CAN_MORE = "· 还有 {count} 项，回复「工具」看全部"
RULE_CAN_NOTHING = "我在这里不能替你办事，回复「帮助」看你能用的命令。"
RULE_CAN_ASK = "回复「帮助」看你能用的命令。"
RULE_NOTHING_TO_CHANGE = (
    "现在没有等你确认的操作可以改。已经办好的，请先取消或删除（例如「取消提醒 1」「删除待办 1」），再重新说一次。"
)
RULE_BOTH = "你是想「{first}」还是「{second}」？请说得具体一点。"
RULE_GAVE_UP = "好的，先不做了。"
RULE_NOT_DONE = "好的，我什么都没做。"
RULE_ONE_TIME = "一次只能说一个时间，请分开说，例如「明天九点提醒我开会」。"
RULE_NOTHING_TO_DROP = "现在没有要取消的事。"
RULE_NO_RECORD = "我在这次对话里没有找到相关的记录。"
RULE_FOUND = "这是你在这次对话里说过的：\n{lines}"
SLOT_ASK = "请告诉我{label}。"
SLOT_TIME = "什么时间？请告诉我{label}，例如「明天上午九点」。"
SLOT_NUMBER = "请告诉我{label}的编号。"
SLOT_CHOICE = "请选一个{label}：{options}"
SLOT_AGAIN = "没看懂。"
SLOT_UNKNOWN = "这里没有“{said}”。"
SLOT_NO_SUCH_DAY = "没有“{said}”这个时间。"
SLOT_WHICH_TIME = "“{said}”说不准是哪个时候。"
SLOT_TOO_LONG = "{label}有 {count} 个字，最多 {limit} 个字，我不替你删，请说短一点。"
RULE_ONE_PERSON = "一次只能发给一个人，请分开说，例如「告诉张三：会议改到三点」。"
RULE_REMIND_OTHERS = "我只能提醒你自己。要告诉{who}，可以说「告诉{who}：…」。"
RULE_REPEAT = "提醒只能每天、每个工作日、每周或每月重复，不会“{said}”。请换一种，或分开说。"
RULE_SEVERAL = "你一次说了 {count} 件事，其中“{text}”还不完整，所以都没有做。请一件一件发给我。"
RULE_HOW = "{what}。直接用一句话说就行，例如{examples}。"
RULE_BYE = "再见，有事随时找我。"
RULE_NOD = "好的，有事直接发给我。"
RULE_NOD_UNABLE = "好的。"
RULE_PRAISE = "谢谢。"
RULE_HELLO = "你好。要办的事直接发给我就行，回复「帮助」看我能做什么。"
RULE_HELLO_UNABLE = "你好。回复「帮助」看你能用的命令。"
RULE_WHO = "我是这里的自动助手，不是真人。"
RULE_THANKS = "不客气。"

HELP_TITLE = "你可以直接把要办的事发给我，也可以发这些命令："
HELP_COMMANDS = "有问题直接发给我，也可以发这些命令："
HELP_EXAMPLES = "要办的事直接说，例如{examples}。"
HELP_LINES: dict[str, str] = {
    "help": "帮助：看我能做什么",
    "status": "状态：看有什么正在处理",
    "new_session": "新会话：换个话题，从头开始",
    "stop": "停止：停下正在做的事",
    "pull": "继续：取后面的内容或晚到的答案",
    "retry": "重试：把没完成的那条再做一次",
    "tools": "工具：列出我能用的工具",
    "pending": "待确认：列出等你确认的操作",
    "decide": "确认 N、取消 N、全部取消：回答等你确认的操作",
    "reissue": "重新发起：把过期的操作再确认一次",
    "undo": "撤销：说明刚才的操作能不能撤",
    "doctor": "诊断：检查系统（管理员）",
}
UNDO_NOTHING = "这里最近没有执行过操作，没有可以撤销的。说过的话和已经发出的消息收不回来。"
UNDO_NOT_RUN = "“{summary}”没有执行，不用撤销。"
UNDO_BY_STATUS: dict[str, str] = {
    "pending": "“{summary}”还没有执行。回复「取消 {number}」就不会执行。",
    "confirmed": "“{summary}”已经确认，马上执行。现在回复「取消 {number}」也许还来得及；来不及的话，执行完再说，我会先请你确认。",
    "executing": "“{summary}”正在执行，拦不住了。要改回来，请等它执行完再说，我会先请你确认。",
    "succeeded": "“{summary}”已经执行，我不能自动撤销，已经发出的消息也收不回来。"
    "要改回来，请说清要做什么、是哪一项（带上编号），我会先请你确认再做。",
    "unknown": "“{summary}”的结果还不清楚，我不会撤销也不会重做。请先核实它有没有生效。",
    "needs_human": "“{summary}”的结果还不清楚，我不会撤销也不会重做。请先核实它有没有生效。",
    "failed": "“{summary}”没有成功，没有要撤销的。",
}
PROMPT_REMEMBERED = "（已把确认单发给用户：{what}，还没有执行）"
OPEN_ACTIONS = "等用户本人确认、还没有执行的操作：{lines}"
TOOLS_NONE = "现在没有你可以用的工具。"
TOOLS_TITLE = "你可以让我用这些工具："

STATUS_IDLE = "现在没有正在处理的事。"
STATUS_TITLE = "正在处理的事："
STATUS_LINE = "{number}. “{question}”：{state}（{age}）"
STATE_NAMES: dict[str, str] = {
    "running": "正在处理",
    "waiting": "排队中",
    "queued": "排队中",
    "parked": "已有结果，回复「继续」查看",
}
STATUS_RULE = "模型：没接大模型（只会固定的几件事）"
STATUS_MODEL = "模型：{names}"
STATUS_WAITING_CONFIRM = "等你确认的操作：{count} 项，回复「待确认」查看"

NEW_SESSION = "好的，我们重新开始。之前的对话不会带进来。"
STOP_NOTHING = "现在没有正在做的事。"
STOP_DONE = "好的，正在停下 {count} 项。"
STOPPED = "已停下，“{question}”没有做完。"
STOPPED_AFTER = "已停下，“{question}”没有做完。停下之前得到的：\n{text}"

RETRY_NOTHING = "没有需要重试的消息。"
RETRY_UNKNOWN = "上一个操作「{summary}」的结果还不清楚，可能已经执行，我不会自动重做。请先核实，确实没有执行再重新告诉我。"

DOCTOR_DENIED = "「诊断」只有管理员能用。回复「帮助」看你能用的命令。"
ONE_LONG_CALL = "一次只能做一件费时的事，这一件没有执行。"
JOB_PUSH = "好的，正在处理，完成后通知你。"
JOB_PULL = "好的，正在处理，稍后回复「继续」查看结果。"

FAILED = "刚才没能完成({reason})，{way_on}"
FAILED_AGAIN = "回复 重试 再来一次"
FAILED_WAY_ON: dict[str, str] = {
    "model_too_long": "请说短一点，或回复「新会话」从头开始",
    "model_filtered": "请换个说法再试",
    "model_key": "请告诉管理员检查模型设置",
    "model_quota": "请告诉管理员检查模型设置",
    "model_no_model": "请告诉管理员检查模型设置",
    "model_no_tools": "请告诉管理员检查模型设置",
    "model_redirect": "请告诉管理员检查模型设置",
}
"""Where trying again would not help."""
FAILED_REASONS: dict[str, str] = {
    "model_timeout": "超时",
    "model_connect": "连不上模型服务",
    "model_busy": "模型服务太忙",
    "model_server": "模型服务出错",
    "model_refused": "模型服务拒绝了请求",
    "model_empty": "模型没有给出内容",
    "model_bad_body": "模型的回答不完整",
    "model_bad_tool_json": "模型的回答不完整",
    "model_not_allowed": "没有允许使用的模型",
    "model_too_long": "内容超过了模型一次能读的长度",
    "model_filtered": "模型服务的内容审核没有放行",
    "model_key": "模型服务不接受我们的密钥",
    "model_quota": "模型服务的额度用完了",
    "model_no_model": "模型服务没有这个模型",
    "model_no_tools": "这个模型不会用工具",
    "model_redirect": "模型服务的地址不对",
    "database_busy": "数据库忙",
    "timeout": "超时",
}
FAILED_OTHER = "内部出错"
CUT_OFF = "（回答到了长度上限，后面没有说完）"

NOTHING_WRITTEN = "（系统提示：这一轮没有创建、修改或发出任何东西，操作都要由你确认之后才会执行。）"
NO_CALLS_LEFT = "本轮的工具调用次数已用完，没有执行。"
TOO_MANY_PROMPTS = "一次最多请用户确认 {count} 项，这一项没有提出。请告诉用户还有哪些，等确认完再说。"
PARTIAL_TITLE = "这件事我没能全部做完（{why}），到目前为止："
PARTIAL_NOTHING = "这件事我没能做完（{why}），还没有得到结果。可以把问题拆小一点再问我。"
PARTIAL_WHY: dict[str, str] = {
    "model_calls": "步骤太多",
    "tool_calls": "查询次数太多",
    "tokens": "内容太长",
    "time": "时间到了",
}

MEDIA_UNREADABLE: dict[str, str] = {
    "image": "暂时看不了图片，请用文字告诉我要做什么。",
    "voice": "暂时听不了语音，请发文字，或在发送前转成文字。",
    "video": "暂时看不了视频，请用文字告诉我要做什么。",
    "file": "暂时不能读取文件{name}，请发文字。",
    "link": "暂时打不开链接里的内容，请把要点发给我。",
    "location": "收到你的位置，但我还不会用它，请用文字告诉我要做什么。",
    "unsupported": "这种消息我还看不懂，请发文字。",
}
VOICE_NOT_HEARD = "这条语音没有听清，请再说一次或发文字。"
EMPTY_TEXT = "我没有收到文字内容，请再发一次。"
EXTERNAL_NOTE = "（本地模型暂时不可用，这条由外部模型 {route} 回答）"


def failed(code: str | None) -> str:
    """What a person is told about a turn that failed, with the way to go on (OA5-06)."""
    reason, way_on = FAILED_REASONS.get(code or "", FAILED_OTHER), FAILED_WAY_ON.get(code or "", FAILED_AGAIN)
    return FAILED.format(reason=reason, way_on=way_on)


def cut_off(text: str) -> str:
    """An answer the model did not get to the end of, said to be one; a tail that only repeats itself is left out."""
    return without_loop(text).rstrip() + "\n" + CUT_OFF


def without_loop(text: str) -> str:
    """A text whose end is one passage over and over (a model that got stuck), with two of the repetitions."""
    for period in range(1, 61):
        start = len(text) - period
        while start > 0 and text[start - 1] == text[start - 1 + period]:
            start -= 1
        if len(text) - start >= max(10 * period, 40):
            return text[: start + 2 * period] + "……"
    return text


def short(text: str, limit: int = 20) -> str:
    """The first characters of a text on one line, for quoting it back."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "…"


def age(seconds: int) -> str:
    """How long something takes already: 「12 秒」, 「3 分钟」."""
    if seconds < 60:
        return f"{max(0, seconds)} 秒"
    return f"{seconds // 60} 分钟" if seconds < 3600 else f"{seconds // 3600} 小时"
