"""Odd answers that are answers: what came, and what of it a person may see."""

from __future__ import annotations

import gzip

from tests.fakes.model_server import Answer, Raw, events, piece
from tests.fakes.odd_shapes import END, HELLO, STOP, sse, text, whole

TEXTS: dict[str, tuple[Answer, str]] = {
    # thoughts
    "think-block": (text("<think>他在问好</think>\n\n你好"), "你好"),
    "think-split-between-chunks": (text("<thi", "nk>他在", "问好</th", "ink>你好"), "你好"),
    "think-closing-only-as-vllm-with-prefilled-template": (text("他在问好，我该回答\n</think>\n\n你好"), "你好"),
    "think-between-answers": (text("<think>一</think>你好<think>二</think>，在的"), "你好，在的"),
    "think-nested": (text("<think>一<think>二</think>三</think>你好"), "你好"),
    "think-unclosed-after-the-answer": (text("你好\n<think>还要说什么吗"), "你好"),
    "thinking-tag": (text("<thinking>嗯</thinking>你好"), "你好"),
    "magistral-tags": (text("[THINK]嗯[/THINK]你好"), "你好"),
    "kimi-vl-tags": (text("◁think▷嗯◁/think▷你好"), "你好"),
    "seed-oss-tags": (text("<seed:think>嗯</seed:think>你好"), "你好"),
    "think-in-backticks-is-the-answer": (text("用 `<think>` 和 `</think>` 包起来"), "用 `<think>` 和 `</think>` 包起来"),
    "think-in-a-fence-is-the-answer": (text("例如：\n```\n<think>a</think>\n```\n好"), "例如：\n```\n<think>a</think>\n```\n好"),
    "think-as-a-word-in-a-sentence": (text("标签 <think> 表示思考"), "标签 <think> 表示思考"),
    "thought-with-an-open-fence": (text("<think>写成 ```json 吗</think>你好 `a`"), "你好 `a`"),
    "reasoning-content": (events(piece(reasoning_content="嗯"), piece(content="你好"), STOP), "你好"),
    "reasoning-field": (events(piece(reasoning="嗯", content=""), piece(content="你好"), STOP), "你好"),
    "mistral-parts": (
        whole(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "嗯"}]}, {"type": "text", "text": "你好"}]}
        ),
        "你好",
    ),
    "hunyuan-answer-tags": (text("<think>\n\n</think>\n<answer>\n你好\n</answer>"), "你好"),
    "glm-box": (text("<|begin_of_box|>你好<|end_of_box|>"), "你好"),
    "harmony-channels": (
        text("<|channel|>analysis<|message|>greet<|end|><|start|>assistant<|channel|>final<|message|>你好<|return|>"),
        "你好",
    ),
    # templates that leak
    "end-token": (text("你好<|im_end|>"), "你好"),
    "ran-on-into-the-next-turn": (text("你好<|im_end|>\n<|im_start|>user\n再来"), "你好"),
    "deepseek-end-token": (text("你好<｜end▁of▁sentence｜>"), "你好"),
    "mistral-end-token": (text("你好</s>"), "你好"),
    # characters
    "nul": (text("你\u0000好"), "你好"),
    "lone-surrogate": (
        sse(b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d\xe4\xbd\xa0"},"finish_reason":"stop"}]}\n\n'),
        "你",
    ),
    "surrogates-in-two-chunks": (
        sse(
            'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\ndata: {"cho'
            'ices":[{"delta":{"content":"\\ude00"},"finish_reason":"stop"}]}\n\n'
        ),
        "😀",
    ),
    "only-an-emoji": (text("👍"), "👍"),
    "utf8-cut-between-packets": (
        Answer(raw=Raw(tuple(bytes([one]) for one in f"data: {HELLO}\n\ndata: {END}\n\n".encode()))),
        "你好",
    ),
    # the stream
    "bom": (sse(f"\ufeffdata: {HELLO}\n\ndata: {END}\n\n"), "你好"),
    "crlf": (sse(f"data: {HELLO}\r\n\r\ndata: {END}\r\n\r\ndata: [DONE]\r\n\r\n"), "你好"),
    "cr-only": (sse(f"data: {HELLO}\r\rdata: {END}\r\r"), "你好"),
    "no-space-after-data": (sse(f"data:{HELLO}\n\ndata:{END}\n\ndata:[DONE]\n\n"), "你好"),
    "comments-and-empty-events": (
        sse(f": OPENROUTER PROCESSING\n\n: ping\n\nretry: 3000\n\nevent: ping\n\ndata: {HELLO}\n\ndata: {END}\n\n"),
        "你好",
    ),
    "keep-alive-as-data": (
        sse(f"data: : OPENROUTER PROCESSING\n\ndata: ping\n\ndata:\n\ndata: null\n\ndata: {HELLO}\n\ndata: {END}\n\n"),
        "你好",
    ),
    "one-newline-between-events": (sse(f"data: {HELLO}\ndata: {END}\ndata: [DONE]\n"), "你好"),
    "json-over-several-data-lines": (
        sse('data: {"choices":\ndata: [{"delta":{"content":"你好"},"finish_reason":"stop"}]}\n\n'),
        "你好",
    ),
    "no-empty-line-at-the-end": (sse(f"data: {HELLO}\n\ndata: {END}"), "你好"),
    "no-done": (text("你好", done=False), "你好"),
    "done-without-finish": (events(piece(content="你好")), "你好"),
    "line-kept-open-after-done": (text("你好", then="stay"), "你好"),
    "line-kept-open-after-finish": (text("你好", done=False, then="stay"), "你好"),
    "cut-after-finish": (text("你好", done=False, then="cut"), "你好"),
    "sse-called-json": (sse(f"data: {HELLO}\n\ndata: {END}\n\n", content_type="application/json"), "你好"),
    "sse-called-plain": (sse(f": hi\n\ndata: {HELLO}\n\ndata: {END}\n\n", content_type="text/plain"), "你好"),
    "gzip": (sse(gzip.compress(f"data: {HELLO}\n\ndata: {END}\n\n".encode()), headers=(("Content-Encoding", "gzip"),)), "你好"),
    # chunks
    "choices-empty-first-as-azure": (events({"choices": [], "prompt_filter_results": []}, piece(content="你好"), STOP), "你好"),
    "choices-null": (events({"choices": None}, piece(content="你好"), STOP), "你好"),
    "delta-null": (events({"choices": [{"index": 0, "delta": None}]}, piece(content="你好"), STOP), "你好"),
    "role-null-and-repeated": (events(piece(role=None, content="你"), piece(role="assistant", content="好"), STOP), "你好"),
    "finish-empty-string-as-ollama": (events(piece("", content="你"), piece("", content="好"), STOP), "你好"),
    "finish-of-another-house": (events(piece(content="你好"), piece("eos_token")), "你好"),
    "content-after-the-finish": (events(piece(content="你"), STOP, piece(content="好")), "你好"),
    "usage-in-every-chunk": (events({**piece(content="你"), "usage": {"prompt_tokens": 1}}, piece(content="好"), STOP), "你好"),
    "second-choice": (
        events(piece(content="你好"), {"choices": [{"index": 1, "delta": {"content": "嗨"}, "finish_reason": "stop"}]}, STOP),
        "你好",
    ),
    "last-chunk-repeats-all-as-minimax": (
        events(piece(content="你好"), {"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "你好"}}]}),
        "你好",
    ),
    "each-chunk-repeats-all": (text("你", "你好", "你好，在", "你好，在的"), "你好，在的"),
    "base-resp-fine": (events({**piece(content="你好"), "base_resp": {"status_code": 0, "status_msg": ""}}, STOP), "你好"),
    "refusal-is-what-it-says": (whole({"content": None, "refusal": "这个我不能帮忙。"}), "这个我不能帮忙。"),
    "whole-without-finish": (whole({"content": "你好"}, None), "你好"),
    "usage-null-and-odd": (events({**piece(content="你好"), "usage": None}, {**STOP, "usage": {"prompt_tokens": "7"}}), "你好"),
    # text that only looks like a call
    "json-that-was-asked-for": (text('{"name": "张三", "arguments": {"a": 1}}'), '{"name": "张三", "arguments": {"a": 1}}'),
    "call-as-an-example": (
        text('调用的格式如下：\n```json\n{"name": "look", "arguments": {"host": "web-01"}}\n```'),
        '调用的格式如下：\n```json\n{"name": "look", "arguments": {"host": "web-01"}}\n```',
    ),
    "call-markup-in-backticks": (text("写 `<tool_call>{}</tool_call>` 即可"), "写 `<tool_call>{}</tool_call>` 即可"),
    "marker-as-a-word": (text("标签 <tool_call> 表示调用"), "标签 <tool_call> 表示调用"),
}
