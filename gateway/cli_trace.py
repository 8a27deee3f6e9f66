"""``yizhan trace``: one message's whole story, from callback to delivery."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from config.clock import Clock
from gateway.cli_start import config_parent, settings_from, stored_data
from gateway.trace import Story, stories
from gateway.trace_texts import NOT_FOUND


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("trace", parents=[config_parent()], help="一条消息从回调到送达的全过程")
    parser.add_argument("what", metavar="MESSAGE|USER", help="平台消息号、行号、应答组、任务号、推送号，或一个人的 id")
    parser.add_argument("--limit", type=int, default=5, metavar="N", help="一个人最近几条（默认 5）")
    parser.add_argument("--bodies", action="store_true", help="连消息内容一起显示（默认不显示）")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the stories; exit code 1 when nothing has this id."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    async with stored_data(settings) as database:
        found = await database.read(lambda c: stories(c, args.what, limit=max(1, args.limit), bodies=args.bodies))
    if not found:
        print(NOT_FOUND.format(what=args.what))
        return 1
    clock = Clock(settings.test_clock)
    print("\n\n".join(render(story, clock) for story in found))
    return 0


def render(story: Story, clock: Clock) -> str:
    """The story as text: title, one line a step with local time and what passed since the step before, verdict."""
    lines = [story.title]
    before: int | None = None
    for step in story.steps:
        if step.at_ms is None:
            lines.append(f"  {'':12} {'':>9}  {step.text}")
            continue
        passed = "" if before is None else f"+{_duration(step.at_ms - before)}"
        lines.append(f"  {clock.local(step.at_ms):%H:%M:%S.}{step.at_ms % 1000:03d} {passed:>9}  {step.text}")
        before = step.at_ms
    first = next((step.at_ms for step in story.steps if step.at_ms is not None), None)
    if first is not None:
        lines[0] += f"  {clock.local(first):%Y-%m-%d}"
    return "\n".join([*lines, f"  → {story.verdict}"])


def _duration(ms: int) -> str:
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"
