"""What ``yizhan models`` prints; the words of its options stand where the options are declared."""

from __future__ import annotations

NONE = "没有配置模型：用离线规则模型（只会固定的几件事）。"
TIMEOUT = "--timeout 要大于 0"
UNKNOWN = "设置里没有线路 {names}"
LOCAL = "本地"
EXTERNAL = "外部"
EXTERNAL_FOR = "外部（已允许的租户：{tenants}）"
NOBODY = "无"
LISTED = "{name}  {model}  {base_url}  {where}  用途：{purposes}"

HEAD = "{name}  {state}  {model}  {url}  {where}  用途：{purposes}"
USABLE: dict[bool, str] = {True: "可用", False: "不可用"}
REACHES = ("连通：{reachable}", "模型存在：{knows_model}")
TALKS = ("回答：{answers}", "首答：{latency}", "流式：{streams}", "工具调用：{calls_tools}", "上下文：{context}")
TRANSCRIBES = "转写：{transcribes}"
TOKENS = "{tokens} 词元"
FAILED = "  没通过："
STATUS = "（HTTP {status}）"
FIX = "  处理：{fix}"
SIGNS: dict[bool | None, str] = {True: "是", False: "否", None: "-"}
FIXES: dict[str, str] = {
    "model_connect": "连不上 {url}：确认模型服务已启动、端口和 base_url 对、防火墙放行；要走代理的外部线路看环境变量 HTTPS_PROXY",
    "model_timeout": "{url} 不回话或太慢：看模型服务是不是正在加载或排队，或加大 --timeout 和线路的 timeout_s",
    "model_key": "密钥不对或没有权限：检查线路的 api_key",
    "model_quota": "账户欠费或额度用完：到模型服务商那里充值或提额",
    "model_no_model": "服务端没有模型 {model}，或 base_url 不对（一般以 /v1 结尾）：{others}",
    "model_redirect": "{url} 要跳转到别处，为了不把内容发给没写明的地方，不跟随：把 base_url 改成跳转后的地址（多半是 https）",
    "model_busy": "服务端太忙或限流：稍后再试，或提高它的并发和额度",
    "model_server": "服务端自己出错：看它的日志（常见：显存不足、模型没加载完、聊天模板出错）",
    "model_bad_body": "回的不是 OpenAI 格式：确认 base_url 指向模型服务的接口（一般以 /v1 结尾），而不是网页或网关的登录页",
    "model_empty": "答了但没有内容：思考型模型把 max_output_tokens 加大，或在 extra_body 里关掉思考",
    "model_too_long": "连一句话都嫌长：检查服务端的上下文长度设置",
    "model_filtered": "内容审核没有放行一句普通的问候：检查服务商的审核设置",
    "model_refused": "服务端不接受请求：看它的日志，检查 extra_body",
    "model_bad_tool_json": "工具调用的参数不是 JSON：换模型，或给服务端设好工具调用的解析方式",
    "model_no_tools": "没有打开工具调用：vLLM 加 --enable-auto-tool-choice 和 --tool-call-parser，llama.cpp 加 --jinja，"
    "Ollama 换支持 tools 的模型",
}
NO_CALL = "模型没有按要求调用工具，待办、提醒等只能由人用命令办：换会用工具的模型，或给服务端设好工具调用的解析方式"
NO_STREAM = "不能流式回答：能用，但长回答要等全部写完，容易超时"
TOO_BIG = "模型一次只读 {tokens} 个词元，设置的 context_chars 是 {chars}：改到 {tokens} 以下"
OTHERS = "它有 {names}"
ASK_IT = "看它的模型列表"
