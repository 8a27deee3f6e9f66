"""What ``yizhan models check`` says of a route: what it can do, and what to do where it cannot."""

from __future__ import annotations

from agent.llm.check import RouteCheck

SIGNS = {True: "是", False: "否", None: "-"}
_FIXES: dict[str, str] = {
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
_NO_CALL = "模型没有按要求调用工具，待办、提醒等只能由人用命令办：换会用工具的模型，或给服务端设好工具调用的解析方式"
_NO_STREAM = "不能流式回答：能用，但长回答要等全部写完，容易超时"
_TOO_BIG = "模型一次只读 {tokens} 个词元，设置的 context_chars 是 {chars}：改到 {tokens} 以下"
_OTHERS = "它有 {names}"
_ASK_IT = "看它的模型列表"


def lines(check: RouteCheck, url: str) -> list[str]:
    """The report of one route, a heading and what was found."""
    where = "本地" if check.local else "外部"
    head = (
        f"{check.name}  {'可用' if check.usable else '不可用'}  {check.model}  {url}  {where}  用途：{'、'.join(check.purposes)}"
    )
    rows = [f"连通：{SIGNS[check.reachable]}", f"模型存在：{SIGNS[check.knows_model]}"]
    if set(check.purposes) != {"transcribe"}:
        latency = f"{check.latency_ms} ms" if check.latency_ms is not None else "-"
        rows += [f"回答：{SIGNS[check.answers]}", f"首答：{latency}", f"流式：{SIGNS[check.streams]}"]
        rows += [f"工具调用：{SIGNS[check.calls_tools]}", f"上下文：{_context(check)}"]
    if check.transcribes is not None:
        rows.append(f"转写：{SIGNS[check.transcribes]}")
    found = ["  " + "  ".join(rows)]
    failed = [f"{probe}：{code}{_status(check, probe)}" for probe, code in check.trouble.items() if _matters(check, probe)]
    if failed:
        found.append("  没通过：" + "，".join(failed))
    return [head, *found, *(f"  处理：{fix}" for fix in fixes(check, url))]


def fixes(check: RouteCheck, url: str) -> list[str]:
    """What to do, each once, the most basic first."""
    others = _OTHERS.format(names="、".join(check.others)) if check.others else _ASK_IT
    told: list[str] = []
    for probe, code in check.trouble.items():
        if _matters(check, probe):
            told.append(_FIXES.get(code, _FIXES["model_refused"]).format(url=url, model=check.model, others=others))
    if check.knows_model is False and "model_no_model" not in check.trouble.values():
        told.append(_FIXES["model_no_model"].format(url=url, model=check.model, others=others))
    if check.calls_tools is False and "tools" not in check.trouble:
        told.append(_NO_CALL)
    if check.streams is False and "stream" not in check.trouble:
        told.append(_NO_STREAM)
    if check.fits is False:
        told.append(_TOO_BIG.format(tokens=check.context_tokens, chars=check.context_chars))
    return list(dict.fromkeys(told))


def _context(check: RouteCheck) -> str:
    return f"{check.context_tokens} 词元" if check.context_tokens is not None else "-"


def _status(check: RouteCheck, probe: str) -> str:
    status = check.statuses.get(probe)
    return f"（HTTP {status}）" if status is not None else ""


def _matters(check: RouteCheck, probe: str) -> bool:
    """A list many endpoints do not offer is no trouble while they answer; an unheard silence is none either."""
    if probe == "list":
        return not check.usable and "chat" not in check.trouble and "transcribe" not in check.trouble
    return probe != "transcribe" or check.transcribes is False
