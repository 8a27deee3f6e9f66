"""Odd answers that are none: what came, the kind of failure, and why the endpoint refused, where it says so."""

from __future__ import annotations

import json

from tests.fakes.model_server import Answer, Raw, body, events, piece
from tests.fakes.odd_shapes import STOP, TOOLS, call, part, sse, text

FAILURES: dict[str, tuple[Answer, str, str | None]] = {
    # nothing
    "only-a-thought": (text("<think>怎么回答呢</think>"), "empty", None),
    "thought-cut-by-the-limit": (events(piece(content="<think>怎么回答"), piece("length")), "empty", None),
    "only-reasoning-content": (events(piece(reasoning_content="你好"), STOP), "empty", None),
    "only-blanks": (text(" \n\t", "\u3000"), "empty", None),
    "only-zero-width": (text("\u200b\ufeff"), "empty", None),
    "only-markup": (text("<|im_end|>"), "empty", None),
    "empty-body": (sse("", content_type="application/json"), "empty", None),
    "done-at-once": (events(), "empty", None),
    "tool-finish-without-calls": (events(piece(content=None), TOOLS), "empty", None),
    "whole-without-choices": (body({"object": "chat.completion", "choices": []}), "empty", None),
    # errors that come with a 200
    "error-in-the-body": (body({"error": {"message": "boom", "code": 500}}), "server", None),
    "error-in-the-stream": (events(piece(content="你"), {"error": {"message": "quota exceeded", "code": 429}}), "busy", None),
    "error-text-in-the-stream": (events({"error": "upstream overloaded"}), "busy", None),
    "error-event-by-name": (sse('event: error\ndata: {"code": "InternalError", "info": "x"}\n\n'), "server", None),
    "error-body-called-a-stream": (sse('{"error": {"message": "internal"}}\n'), "server", None),
    "error-of-old-vllm": (body({"object": "error", "message": "bad", "code": 40303}), "server", None),
    "error-as-code-and-msg": (body({"code": 401, "msg": "invalid token"}), "refused", "key"),
    "error-of-minimax": (body({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}), "busy", None),
    "error-success-false": (body({"success": False, "message": "x"}), "server", None),
    "context-too-long-in-the-stream": (
        events({"error": {"code": "context_length_exceeded", "message": "x"}}),
        "refused",
        "too_long",
    ),
    "filtered-in-the-stream": (
        events({"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}}),
        "refused",
        "filtered",
    ),
    # broken off
    "cut-mid-text": (events(piece(content="你"), done=False, then="cut"), "bad_body", None),
    "closed-mid-text": (events(piece(content="你"), done=False), "bad_body", None),
    "closed-mid-call": (events(piece(tool_calls=[part('{"host":', "look", id="a")]), done=False), "bad_body", None),
    "chunk-cut-mid-json": (sse('data: {"choices": [{"delta": {"cont\n\n'), "bad_body", None),
    "gzip-broken": (sse(b"\x1f\x8b\x08nonsense", headers=(("Content-Encoding", "gzip"),)), "bad_body", None),
    "content-filter": (events(piece(content="首先"), piece("content_filter")), "refused", "filtered"),
    "sensitive-as-zhipu": (events(piece(content="首先"), piece("sensitive")), "refused", "filtered"),
    "no-resources-as-deepseek": (events(piece(content="首先"), piece("insufficient_system_resource")), "busy", None),
    "network-error-as-zhipu": (events(piece("network_error")), "server", None),
    "abort-as-vllm": (events(piece(content="首先"), piece("abort")), "bad_body", None),
    "web-page": (sse("<html>登录</html>", content_type="text/html; charset=utf-8"), "bad_body", None),
    "web-page-called-json": (sse("<html>登录</html>", content_type="application/json"), "bad_body", None),
    "json-list": (body([1, 2]), "bad_body", None),
    # without measure
    "endless-blanks": (Answer(raw=Raw((b"\n" * 65536,), then="repeat")), "bad_body", None),
    "endless-keep-alives": (Answer(raw=Raw((b": ping\n\n" * 8192,), then="repeat")), "bad_body", None),
    "endless-line": (Answer(raw=Raw((b"data: ", b"x" * 65536), then="repeat")), "bad_body", None),
    "endless-text": (
        Answer(raw=Raw((json.dumps(piece(content="哈" * 9000)).join(("data: ", "\n\n")).encode(),), then="repeat")),
        "bad_body",
        None,
    ),
    "endless-calls": (
        events(*(piece(tool_calls=[{**part("{}", "look", id=f"c{n}"), "index": n}]) for n in range(70))),
        "bad_body",
        None,
    ),
    # calls that are none
    "arguments-cut-by-the-limit": (
        events(piece(tool_calls=[part('{"host": "we', "look")]), piece("length")),
        "bad_tool_json",
        None,
    ),
    "arguments-of-python": (call(part("{'host': 'web-01'}", "look")), "bad_tool_json", None),
    "arguments-with-a-lone-surrogate": (call(part('{"host": "\\ud83d"}', "look")), "bad_tool_json", None),
    "arguments-with-nul": (call(part('{"host": "a\\u0000"}', "look")), "bad_tool_json", None),
    "call-without-a-name": (call(part('{"host": "a"}', "", id="a")), "bad_tool_json", None),
    "two-calls-merged": (call(part('{"host": "a"}{"host": "b"}', "look", id="a")), "bad_tool_json", None),
    "hermes-broken": (text('<tool_call>{"name": "look", "arguments": {"host": </tool_call>'), "bad_tool_json", None),
    # refusals
    "301": (body({}, 301, Location="http://127.0.0.1:9/v1"), "refused", "redirect"),
    "401": (body({"error": {"message": "Incorrect API key"}}, 401), "refused", "key"),
    "402": (body({"error": {"message": "Insufficient Balance"}}, 402), "refused", "quota"),
    "403": (body({"error": {"message": "no access"}}, 403), "refused", "key"),
    "403-arrears": (body({"error": {"code": "AccountOverdue", "message": "账户欠费"}}, 403), "refused", "quota"),
    "404-model": (body({"error": {"message": "model 'x' not found"}}, 404), "refused", "no_model"),
    "404-page": (sse("<html>404</html>", status=404, content_type="text/html"), "refused", "no_model"),
    "400-model": (body({"error": {"message": "The model `x` does not exist"}}, 400), "refused", "no_model"),
    "413": (sse("too large", status=413, content_type="text/plain"), "refused", "too_long"),
    "422": (body({"detail": [{"loc": ["body"], "msg": "field required"}]}, 422), "refused", None),
    "400-context-vllm": (body({"message": "This model's maximum context length is 8192 tokens"}, 400), "refused", "too_long"),
    "400-context-llama": (
        body({"error": {"type": "exceed_context_size_error", "message": "exceeds the available context size"}}, 400),
        "refused",
        "too_long",
    ),
    "400-context-dashscope": (
        body({"error": {"message": "Range of input length should be [1, 30720]"}}, 400),
        "refused",
        "too_long",
    ),
    "400-inspection-dashscope": (body({"error": {"code": "data_inspection_failed"}}, 400), "refused", "filtered"),
    "400-azure-policy": (
        body({"error": {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, 400),
        "refused",
        "filtered",
    ),
    "400-tools-ollama": (
        body({"error": {"message": "registry.ollama.ai/library/gemma3:4b does not support tools"}}, 400),
        "refused",
        "no_tools",
    ),
    "400-tools-vllm": (
        body({"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}, 400),
        "refused",
        "no_tools",
    ),
    "408": (body({}, 408), "timeout", None),
    "429": (body({"error": {"message": "Rate limit reached"}}, 429), "busy", None),
    "500": (body({"error": {"message": "CUDA out of memory"}}, 500), "server", None),
    "502-page": (sse("<html>Bad Gateway</html>", status=502, content_type="text/html"), "server", None),
    "504": (sse("", status=504), "server", None),
    "529": (body({"error": {"type": "overloaded_error"}}, 529), "server", None),
}
