"""What is said about settings, in one place: every fault names where it is, the expected form and the origin, never a value."""

from __future__ import annotations

UNUSABLE = "不能用："
PROBLEM = "{where}：{problem}（{origin}）"
ACCOUNT = "账号 {id}"
ALL = "整个设置"
DEFAULTS = "默认值"
VARIABLE = "环境变量 {name}"
FROM = "{where}，来自 {names}"

NO_FILE = "设置文件 {file} 不存在（{option}）"
UNREADABLE = "设置文件 {file} 不是 UTF-8 文本，读不了：{reason}"
NO_MAPPING = "{where}：最外层要是键和值"
NOT_YAML = "{where}：不是有效的 YAML：{reason}"
NOT_YAML_HERE = "不是有效的 YAML"
UNREADABLE_VALUE = "读不懂这个值"
KEY_NOT_TEXT = "{where}：键要是文字"
TWICE = "写了两次，第二次在 {where}"
NOT_SET = "环境变量 {name} 没有设置"
NO_PLACE = "设置里没有这个位置"
TRIMMED = "{where}：去掉了值两头的空白或看不见的字符（{origin}）"

UNKNOWN_KEY = "没有这个键"
DID_YOU_MEAN = "；是不是 {near}？"
MISSING = "缺少这一项"
GOT = "，现在是 {count} 个字符"
FORMS = {
    "corp_id": "要是 ww 或 wx 加 16 位 0-9 a-f",
    "app_id": "要是 wx 或 ww 加 16 位 0-9 a-f",
    "callback_token": "要是 1 到 32 位字母和数字",
    "original_id": "要是 gh_ 加字母和数字",
    "id": "要是 1 到 64 位 a-z 0-9 _ -，以字母或数字开头",
    "platform": "要是 wecom 或 mp",
    "agent_id": "要是应用的 AgentId，一个数字，如 1000002",
}
KINDS = {
    "int_parsing": "要是整数",
    "int_type": "要是整数",
    "int_from_float": "要是整数",
    "float_parsing": "要是数字",
    "float_type": "要是数字",
    "bool_parsing": "要是 true 或 false",
    "bool_type": "要是 true 或 false",
    "string_type": "要是文字",
    "list_type": "要是列表",
    "tuple_type": "要是列表",
    "dict_type": "要是键和值",
    "model_type": "要是键和值",
    "model_attributes_type": "要是键和值",
    "finite_number": "要是有限的数",
    "greater_than": "要大于 {gt}",
    "greater_than_equal": "至少是 {ge}",
    "less_than": "要小于 {lt}",
    "less_than_equal": "最多是 {le}",
    "literal_error": "只能是 {expected}",
    "string_pattern_mismatch": "形式不对，要符合 {pattern}",
    "string_too_short": "至少要 {min_length} 个字符",
    "string_too_long": "最多 {max_length} 个字符",
    "too_short": "至少要 {min_length} 项",
    "too_long": "最多 {max_length} 项",
}
"""What pydantic finds, by its names."""

PUBLIC_URL = "要是网址，如 https://bot.example.com"
MODEL_URL = "要是网址，如 http://127.0.0.1:8000/v1"
TOOL_URL = "url：要是 http(s)://主机/路径，{名字} 只能在主机之后"
TOOL_CLASS = "class：发 {method} 的工具要写明 read 或 operation"
TOOL_WRITES = "class：发 {method} 的工具是 operation"
KEY_NEEDED = "{mode} 模式需要 encoding_aes_key（43 位字母和数字）"
KEY_FORM = "要是 43 位字母和数字，现在是 {count} 个字符"
EMPTY = "不能为空"

SAME_PORT = "与 http.port 相同；两个地址各要一个端口"
TENANT_TWICE = "租户 id {id} 用了两次；每个租户要有自己的"
ACCOUNT_TWICE = "账号 id {id} 用了两次；每个账号要有自己的"
NO_SUCH_ACCOUNT = "这个租户没有这个账号"
ROWS_BODY = "不能小于 body_days"
ROWS_FRESH = "不能短于 callback_max_age_s，否则旧回调会当成新消息"
ROWS_WELCOME = "不能短于账号 {id} 的 welcome.interval_h"
DEMO_LOOPBACK = "演示只在本机监听"
DEMO_REAL = "演示不接真实账号；去掉 tenants，或不带 --demo 启动"
