"""What `yizhan trace` says about a message, step by step."""

from __future__ import annotations

STATUS = {
    "received": "已落库，等待处理",
    "running": "正在处理",
    "done": "处理完",
    "failed": "失败",
    "stopped": "被叫停",
    "dead": "多次失败，已放弃",
    "refused": "太多，没收下（已告知对方）",
}
VIA = {"passive": "在 HTTP 应答里", "push": "主动推送", "pull": "对方回复「继续」时"}
LANE = {"turn": "进入对话", "single": "命令，按顺序", "fast": "快速通道", "none": "只记录，不回应"}
CAUSE = {"push": "推送", "reminder": "提醒", "notice": "通知"}
ANSWER = "回答"
MESSAGE = "消息"

CODE = "（{code}）"
BODY = "「{text}」"
SENT = "对方发出{text}{number}"
MESSAGE_ID = "，平台消息号 {id}"
RECEIVED = "收到回调，验签解密通过，已落库；{lane}{again}"
AGAIN = "，平台共投递 {count} 次（重复的并到这一条）"
JOINED = "并入 #{seq} 一起回答"
ATTEMPTS = "失败过 {count} 次，重试"
DEATHS = "处理它的进程死过 {count} 次，由租约找回重跑"
STOPPED = "对方要求停止"

TURN = "一轮：{outcome}{code}，路由 {route}，{used}共 {total_ms} ms（模型 {model_ms} ms）{tools}"
TOKENS = "{prompt}+{completion} tokens，"
TOOLS = "，工具 {tools}"
TOOL = "工具 {tool}（{decision}）{ended}，{took_ms} ms"
TOOL_OK = "成功"
TOOL_FAILED = "失败（{code}）"
NO_CODE = "无代码"

ACTION = "操作 {tool} 等本人确认（编号 {number}，风险 {risk}）"
DECIDED = "{who} 经 {via} 作了决定"
ACTION_ENDED = "操作 {tool} 结束：{status}{code}"
JOB = "长任务 {name} 排入队列 {queue}（{id}）"
JOB_STARTED = "worker 开始执行 {name}，第 {number} 次"
JOB_ENDED = "长任务 {name} 结束：{status}{code}"

PART = "第 {part}/{parts} 条"
WRITTEN = "{name}{part}写好（{kind}，{group}）{text}"
DELIVERED = "{name}{part}{via}送出{tries}{number}"
TRY = "，第 {count} 次尝试"
PLATFORM_ID = "，平台编号 {id}"
NOW = "{name}{part}现在：{state}"
REASON = "（{reason}）"
TRIED = "，试过 {count} 次"
TOLD = "，{told}"
PLATFORM_SAID = "平台答 {errcode}：{errmsg}"
PUSH = "推送请求 {id}，{targets} 个对象"

ONLY_NOTED = "这类事件只记录，不回应。"
OPEN = "还没有回答：{status}。"
NOTHING_TO_SAY = "没有要说的话（空回答）。"
ENDED = "{status}。"
ARRIVED = "已送到平台（{ways}）。"
PARTLY = "{sent}/{all} 条已送出；其余：{state}。"
NOT_SENT = "还没有送出：{state}。"
AT_PLATFORM = "已送到平台。"
NOT_FOUND = "没有找到 {what}：它不是这里的消息号、行号、任务号、推送号，也没有这个人的消息"
