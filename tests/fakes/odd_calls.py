"""Odd ways to call tools, structured and written as text, and the calls they mean."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.model_server import Answer, events, piece
from tests.fakes.odd_shapes import TOOLS, WEB, call, part, text, whole

CALLS: dict[str, tuple[Answer, list[tuple[str, dict[str, Any]]]]] = {
    # arguments
    "arguments-object-as-llama-cpp": (call(part({"host": "web-01"}, "look", id="a")), WEB),
    "arguments-null": (call(part(None, "list_todos", id="a")), [("list_todos", {})]),
    "arguments-null-word": (call(part("null", "list_todos", id="a")), [("list_todos", {})]),
    "arguments-empty": (call(part("", "list_todos", id="a")), [("list_todos", {})]),
    "arguments-missing": (call({"index": 0, "id": "a", "function": {"name": "list_todos"}}), [("list_todos", {})]),
    "arguments-encoded-twice": (call(part(json.dumps('{"host": "web-01"}'), "look", id="a")), WEB),
    "arguments-with-an-escape-somebody-typed": (
        call(part(r'{"host": "\\u0000"}', "look", id="a")),
        [("look", {"host": r"\u0000"})],
    ),
    "arguments-in-a-fence": (call(part('```json\n{"host": "web-01"}\n```', "look", id="a")), WEB),
    "arguments-begin-with-an-empty-object": (call(part("{}", "look", id="a"), part('{"host":'), part(' "web-01"}')), WEB),
    "arguments-sent-again-at-the-end": (
        call(part('{"host": ', "look", id="a"), part('"web-01"}'), part('{"host": "web-01"}', "look", id="a")),
        WEB,
    ),
    "arguments-grow-with-every-chunk": (
        call(part('{"ho', "look", id="a"), part('{"host": "we'), part('{"host": "web-01"}')),
        WEB,
    ),
    # identity
    "id-and-name-empty-later-as-dashscope": (call(part('{"host": ', "look", id="a"), part('"web-01"}', "", id="")), WEB),
    "id-and-name-null-later-as-sglang": (
        call(part('{"host": ', "look", id="a"), {"index": 0, "id": None, "function": {"name": None, "arguments": '"web-01"}'}}),
        WEB,
    ),
    "name-again-in-every-chunk": (call(part('{"host": ', "look", id="a"), part('"web-01"}', "look", id="a")), WEB),
    "name-in-two-pieces": (call(part("", "lo", id="a"), part('{"host": "web-01"}', "ok")), WEB),
    "name-after-the-arguments": (call(part('{"host": "web-01"}', id="a"), part("", "look")), WEB),
    "name-with-namespace": (call(part('{"host": "web-01"}', "functions.look", id="a")), WEB),
    "name-with-counter-as-kimi": (call(part('{"host": "web-01"}', "functions.look:0", id="functions.look:0")), WEB),
    "name-with-blanks": (call(part('{"host": "web-01"}', " look\n", id="a")), WEB),
    "name-in-another-case": (call(part("{}", "List-Todos", id="a")), [("list_todos", {})]),
    "name-with-harmony-tokens": (call(part('{"host": "web-01"}', "look<|channel|>json", id="a")), WEB),
    "same-id-two-indexes": (
        call(part('{"host": "web-01"}', "look", id="call"), {**part("{}", "list_todos", id="call"), "index": 1}),
        [*WEB, ("list_todos", {})],
    ),
    "index-0-and-no-id-for-all": (
        call(part('{"host": "web-01"}', "look"), part('{"host": "db-02"}', "look")),
        [*WEB, ("look", {"host": "db-02"})],
    ),
    "index-from-1-and-as-text": (
        call({**part('{"host": ', "look", id="a"), "index": "1"}, {**part('"web-01"}'), "index": "1"}),
        WEB,
    ),
    "tool-calls-a-single-object": (events(piece(tool_calls=part('{"host": "web-01"}', "look", id="a")), TOOLS), WEB),
    "function-call-of-old": (
        events(
            piece(function_call={"name": "look", "arguments": '{"host": '}),
            piece(function_call={"arguments": '"web-01"}'}),
            piece("function_call"),
        ),
        WEB,
    ),
    "no-finish-and-no-end-mark-as-glm-at-some-hosts": (
        events(piece(tool_calls=[part('{"host": "web-01"}', "look", id="a")]), done=False),
        WEB,
    ),
    "finish-stop-with-calls": (call(part('{"host": "web-01"}', "look", id="a"), finish="stop"), WEB),
    "calls-null-beside": (
        events(piece(tool_calls=None, content=""), piece(tool_calls=[part('{"host": "web-01"}', "look")]), TOOLS),
        WEB,
    ),
    "whole-content-null": (
        whole(
            {"content": None, "tool_calls": [{"id": "", "function": {"name": "look", "arguments": {"host": "web-01"}}}]}, "stop"
        ),
        WEB,
    ),
    # calls written as text
    "hermes": (text('<tool_call>\n{"name": "look", "arguments": {"host": "web-01"}}\n</tool_call>'), WEB),
    "hermes-unclosed-and-split": (text("<tool", '_call>{"name": "look", "argum', 'ents": {"host": "web-01"}}'), WEB),
    "hermes-two": (
        text(
            '<tool_call>{"name": "look", "arguments": {"host": "web-01"}}</tool_c'
            'all>\n<tool_call>{"name": "list_todos", "arguments": {}}</tool_call>'
        ),
        [*WEB, ("list_todos", {})],
    ),
    "hermes-inside-a-thought-does-not-count": (
        text(
            '<think><tool_call>{"name": "list_todos", "arguments": {}}</tool_call></thi'
            'nk><tool_call>{"name": "look", "arguments": {"host": "web-01"}}</tool_call>'
        ),
        WEB,
    ),
    "qwen-tools-tag": (text('<tools>\n{"name": "look", "arguments": {"host": "web-01"}}\n</tools>'), WEB),
    "qwen3-coder": (text("<tool_call>\n<function=look>\n<parameter=host>\nweb-01\n</parameter>\n</function>\n</tool_call>"), WEB),
    "qwen3-coder-without-its-envelope": (text("<function=look>\n<parameter=host> web-01\n"), WEB),
    "glm": (text("<tool_call>look\n<arg_key>host</arg_key>\n<arg_value>web-01</arg_value>\n</tool_call>"), WEB),
    "glm-typed": (
        text(
            "<tool_call>look<arg_key>count</arg_key><arg_value>3</arg_value><arg_key>host</arg_key><arg_value>12</arg_value></tool_call>"
        ),
        [("look", {"count": 3, "host": "12"})],
    ),
    "kimi": (
        text(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_a"
            'rgument_begin|>{"host": "web-01"}<|tool_call_end|><|tool_calls_section_end|>'
        ),
        WEB,
    ),
    "deepseek-v3": (
        text(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n`"
            '``json\n{"host": "web-01"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
        ),
        WEB,
    ),
    "deepseek-v31": (
        text(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜"
            '>{"host": "web-01"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
        ),
        WEB,
    ),
    "deepseek-dsml": (
        text(
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="look">\n<｜DSML｜parameter name="host" '
            'string="true">web-01</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
        ),
        WEB,
    ),
    "minimax": (
        text(
            '<minimax:tool_call>\n<invoke name="look">\n<parameter name'
            '="host">web-01</parameter>\n</invoke>\n</minimax:tool_call>'
        ),
        WEB,
    ),
    "mistral": (text('[TOOL_CALLS][{"name": "look", "arguments": {"host": "web-01"}}]'), WEB),
    "mistral-args": (text('[TOOL_CALLS]look[ARGS]{"host": "web-01"}'), WEB),
    "phi": (text('functools[{"name": "look", "arguments": {"host": "web-01"}}]'), WEB),
    "llama-python-tag": (text('<|python_tag|>{"name": "look", "parameters": {"host": "web-01"}}<|eom_id|>'), WEB),
    "llama-bare-json": (text('{"type": "function", "name": "look", "parameters": {"host": "web-01"}}'), WEB),
    "llama-pythonic": (text('[look(host="web-01")]'), WEB),
    "json-fence": (text('我看一下：\n```json\n{"name": "look", "arguments": {"host": "web-01"}}\n```'), WEB),
    "internlm": (text('<|action_start|><|plugin|>\n{"name": "look", "parameters": {"host": "web-01"}}<|action_end|>'), WEB),
    "function-call-tag": (
        text('<function_call>{"name": "look", "arguments": "{\\"host\\": \\"web-01\\"}"}</function_call>'),
        WEB,
    ),
    "harmony-commentary": (
        text(
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>comment"
            'ary to=functions.look <|constrain|>json<|message|>{"host": "web-01"}<|call|>'
        ),
        WEB,
    ),
}
