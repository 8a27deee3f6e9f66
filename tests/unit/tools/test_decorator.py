"""A function with type hints and a docstring becomes a tool."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any, Literal, cast

from tools.base import Tool, ToolContext, ToolResult, tool
from tools.registry import run_tool, summarized
from tools.schema import compile_schema


class Level(Enum):
    """How much it matters."""

    HIGH = "high"


NOBODY = cast(ToolContext, None)


@tool(tool_class="read", title="汇率", examples=("美元汇率",))
async def exchange_rate(currency: Literal["USD", "EUR"], amount: float = 1) -> str:
    """Tell an exchange rate.

    currency: 货币
    amount: how much
    """
    return f"{amount:g} {currency} 是 {amount * 7:g} 元"


def test_declaration() -> None:
    """S001-43: name, description and schema come from the function."""
    made = cast(Tool, exchange_rate)
    assert (made.name, made.description, made.title, made.tool_class) == (
        "exchange_rate",
        "Tell an exchange rate.",
        "汇率",
        "read",
    )
    assert made.labels == {"currency": "货币"}
    assert made.parameters["properties"]["currency"] == {
        "description": "货币",
        "enum": ["USD", "EUR"],
        "title": "Currency",
        "type": "string",
    }
    assert made.parameters["required"] == ["currency"]
    checker = compile_schema(made.parameters)
    assert checker.check({"currency": "USD"}) == []
    assert [problem.code for problem in checker.check({"currency": "JPY", "x": 1})] == ["enum", "unknown_field"]


def test_a_forgotten_class_asks_first() -> None:
    """S001-48: an author who says nothing of the class has written an operation, not a write that nobody is asked about."""

    @tool
    def erase(path: str) -> str:
        """Erase a file."""
        return path

    assert cast(Tool, erase).tool_class == "operation"
    assert cast(Tool, erase).needs_confirmation
    assert not cast(Tool, exchange_rate).needs_confirmation


async def test_async_plain_and_templated() -> None:
    """Async and plain functions; strings, dicts with a template, results."""

    @tool(summary_template="{host} 的内存 {memory}%", tool_class="read")
    def memory(host: str, context: ToolContext | None = None) -> dict[str, Any]:
        """Memory of a host."""
        return {"memory": 85}

    @tool
    def plain() -> ToolResult:
        """A result of its own."""
        return ToolResult("好")

    said = (await cast(Tool, exchange_rate).run(NOBODY, {"currency": "USD", "amount": 2})).summary
    assert said == "2 USD 是 14 元"
    result, _, _ = await run_tool(cast(Tool, memory), NOBODY, {"host": "A"})
    assert result is not None
    assert (result.summary, result.values) == ("A 的内存 85%", {"memory": 85})
    assert (await cast(Tool, plain).run(NOBODY, {})).summary == "好"


async def test_what_a_tool_raises_never_reaches_the_model() -> None:
    """S001-53: a crash is one sentence; its text may hold anything."""

    @tool
    def broken() -> str:
        """Fails."""
        raise ValueError("password=hunter2")

    assert await run_tool(cast(Tool, broken), NOBODY, {}) == (None, "内部出错", "crashed")


def test_a_template_without_its_value_says_so() -> None:
    """S001-51 S001-53: nothing is made up for a field that is not there."""

    @tool(summary_template="{nothing}")
    def empty() -> str:
        """Empty."""
        return ""

    said = summarized(cast(Tool, empty), {}, ToolResult()).summary
    assert said == "「empty」已返回结果，但没有可用的摘要。"


async def test_arguments_arrive_as_their_hints_say() -> None:
    """A date is a date, a choice the choice; what cannot be one is told, and the function is not called."""
    seen: list[tuple[date, Level, int]] = []

    @tool
    def note(day: date, level: Level = Level.HIGH, count: int = 1) -> None:
        """Note a day."""
        seen.append((day, level, count))

    made = cast(Tool, note)
    result, _, _ = await run_tool(made, NOBODY, {"day": "2026-01-31", "level": "high"})
    assert seen == [(date(2026, 1, 31), Level.HIGH, 1)]
    assert result is not None
    assert result.summary == "「note」已返回结果，但没有可用的摘要。"
    assert compile_schema(made.parameters).check({"day": "2026-01-31", "level": "high"}) == []
    assert await run_tool(made, NOBODY, {"day": "31.1."}) == (None, "参数的写法不对", "invalid")
    assert len(seen) == 1
