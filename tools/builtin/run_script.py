"""Runs allow-listed presets with typed arguments, here or over ssh; no shell string exists (N-20)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from config.schema import Host, ScriptArgument, ScriptPreset, Settings, Tenant
from tools import texts
from tools.base import Prepared, Tool, ToolContext, ToolRefused, ToolResult, fingerprint
from tools.process import run_on

_SHOWN_CHARS = 400
_VERBS = ("运行", "执行", "跑")


def build(settings: Settings, tenant: Tenant) -> list[Tool]:
    """One tool for all presets; each call is narrowed to its preset's own schema, class, roles and timeout."""
    presets = {preset.id: preset for preset in tenant.tools.scripts}
    if not presets:
        return []
    hosts = {host.id: host for host in tenant.tools.hosts}
    exact = {name: _preset_tool(preset, hosts) for name, preset in presets.items()}
    places = sorted({host for preset in presets.values() for host in preset.hosts})
    return [
        Tool(
            name="run_script",
            title="运行脚本",
            description="运行预设的运维脚本：" + "；".join(f"{preset.id}={preset.description}" for preset in presets.values()),
            parameters={
                "type": "object",
                "properties": {
                    "preset": {"type": "string", "enum": list(presets), "title": "脚本", "description": "哪个脚本"},
                    "host": {"type": "string", "enum": places, "title": "主机", "description": "在哪台主机上"},
                    "arguments": {"type": "object", "title": "参数", "description": "脚本的参数"},
                },
                "required": ["preset"],
                "additionalProperties": False,
            },
            run=_never,
            tool_class="script",
            roles=frozenset(role for preset in presets.values() for role in preset.roles),
            narrow=lambda arguments: exact.get(str(arguments.get("preset"))),
            labels={"preset": "脚本", "host": "主机", "arguments": "参数"},
            examples=tuple(f"运行脚本 {name}" for name in list(presets)[:2]),
            triggers=(
                "运行脚本",
                "跑脚本",
                "执行脚本",
                "运行 脚本",
                "跑 脚本",
                "执行 脚本",
                *(f"^{verb} {name}" for verb in _VERBS for name in presets),
            ),
        )
    ]


async def _never(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    raise ToolRefused("a preset is missing")


def _preset_tool(preset: ScriptPreset, hosts: Mapping[str, Host]) -> Tool:
    required = [name for name, spec in preset.arguments.items() if spec.default is None]
    typed: dict[str, Any] = {
        "type": "object",
        "properties": {name: _schema(spec) for name, spec in preset.arguments.items()},
        "required": required,
        "additionalProperties": False,
    }

    async def prepare(context: ToolContext, arguments: Mapping[str, Any]) -> Prepared:
        given = dict(arguments.get("arguments") or {})
        for name, value in given.items():
            _harmless(name, str(value))
        final: dict[str, Any] = {"preset": preset.id, "host": arguments.get("host", preset.hosts[0])}
        values = {name: given.get(name, spec.default) for name, spec in preset.arguments.items()}
        if values:
            final["arguments"] = values
        shown = {"host": texts.HERE} if final["host"] == "local" else {}
        return Prepared(final, {"preset": f"{preset.id}（{preset.description}）", **shown})

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        host = arguments.get("host", preset.hosts[0])
        argv = fill_argv(preset, dict(arguments.get("arguments") or {}))
        ran = await run_on(None if host == "local" else hosts[host], argv, timeout_s=preset.timeout_s)
        return _result(preset, host, ran.code, ran.output)

    return Tool(
        name="run_script",
        title=f"运行脚本 {preset.id}",
        description=preset.description,
        parameters={
            "type": "object",
            "properties": {
                "preset": {"const": preset.id},
                "host": {"type": "string", "enum": [h for h in preset.hosts if h == "local" or h in hosts]},
                "arguments": typed,
            },
            "required": ["preset", *(["arguments"] if required else [])],
            "additionalProperties": False,
        },
        run=run,
        prepare=prepare,
        tool_class="script",
        read_only=preset.read_only,
        roles=frozenset(preset.roles),
        timeout_s=preset.timeout_s + 2,
        long=preset.timeout_s > 60,
        risk=preset.risk,
        confirm_template="在{host}运行脚本 " + preset.id.replace("{", "").replace("}", ""),
        labels={"preset": "脚本", "host": "主机", "arguments": "参数"},
        version=fingerprint(preset.argv, preset.read_only, typed, [str(hosts[name]) for name in preset.hosts if name in hosts]),
    )


def fill_argv(preset: ScriptPreset, values: Mapping[str, Any]) -> list[str]:
    """The argv with each ``{name}`` replaced; a value is one word or a part of one and never an option of its own."""
    given = {name: values.get(name, spec.default) for name, spec in preset.arguments.items()}
    texts_of = {name: str(value) for name, value in given.items() if value is not None}
    place = re.compile("|".join(re.escape(f"{{{name}}}") for name in texts_of) or r"(?!)")

    def fill(match: re.Match[str]) -> str:
        name = match[0][1:-1]
        _harmless(name, texts_of[name])
        return texts_of[name]

    return [place.sub(fill, word) for word in preset.argv]  # in one pass: a value that looks like a place stays a value


def _harmless(name: str, value: str) -> None:
    if value.startswith("-") or any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in value):
        raise ToolRefused("not a safe argument", user_text=texts.SCRIPT_BAD_ARGUMENT.format(name=name))


def _schema(spec: ScriptArgument) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": spec.type, "description": spec.description}
    if spec.enum is not None:
        schema["enum"] = [int(value) for value in spec.enum] if spec.type == "integer" else list(spec.enum)
    if spec.pattern is not None:
        schema["pattern"] = f"^(?:{spec.pattern})$"
    if spec.type == "string":
        schema["maxLength"] = 200
    for key, value in (("minimum", spec.minimum), ("maximum", spec.maximum)):
        if value is not None:
            schema[key] = value
    return schema


def _result(preset: ScriptPreset, host: str, code: int, output: str) -> ToolResult:
    text = output.strip()
    shown = text if len(text) <= _SHOWN_CHARS else "…" + text[-_SHOWN_CHARS:]
    said = texts.SCRIPT_OUTPUT.format(text=shown) if shown else ""
    template = texts.SCRIPT_DONE if code == 0 else texts.SCRIPT_EXIT
    where = texts.HERE if host == "local" else texts.THERE.format(host=host)
    summary = template.format(preset=preset.id, host=where, code=code, output=said)
    return ToolResult(summary, raw={"code": code, "output": output}, values={"code": code, "output": shown, "host": host})
