"""Patterns of a parameter schema: ECMA expressions that cost neither time nor memory without a limit."""

from __future__ import annotations

import re
import time as clock
from collections.abc import Callable

import regex

from tools.schema_run import Run

Matcher = Callable[[str, Run], bool | None]
_MATCH_S = 0.1
_STEPS_A_SECOND = 50_000
"""What matching a pattern costs, so that many slow ones end as soon as a single one."""
_MAX_CHARS = 5_000
_MAX_UNROLLED = 20_000
_TOKEN = re.compile(
    r"\\.|\[\^?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!>|]|<[=!]))?|\)|\{\s*(?P<least>\d+)\s*(?:,\s*\d*\s*)?\}|.", re.DOTALL
)


class BadPattern(Exception):
    """The pattern does not compile, or is too big."""


def compile_pattern(pattern: str) -> Matcher:
    """An ECMA pattern, searched with a time limit; None means it could not be decided. The processor time it takes counts
    as steps of the run. ``$`` is the very end, never before a trailing newline. Raises BadPattern."""
    if len(pattern) > _MAX_CHARS or _unrolled(pattern) > _MAX_UNROLLED:
        raise BadPattern("the pattern is too big")
    try:
        compiled = regex.compile(_strict_end(pattern), regex.VERSION0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"the pattern does not compile: {error}") from None

    def matches(value: str, run: Run) -> bool | None:
        started = clock.thread_time()
        try:
            return compiled.search(value, timeout=_MATCH_S) is not None
        except TimeoutError:
            return None
        finally:
            run.step((clock.thread_time() - started) * _STEPS_A_SECOND)

    return matches


def _unrolled(pattern: str) -> int:
    """How long the pattern is with its least repeats written out, as the engine does: ``a{999999999}`` is no short one."""
    open_groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token["least"] is not None:
            repeats = max(int(token["least"][:12]), 1)
            open_groups[-1] += last * (repeats - 1)
            last *= repeats
        elif text.startswith("("):
            open_groups.append(0)
        else:
            last = open_groups.pop() if text == ")" and len(open_groups) > 1 else 1
            open_groups[-1] += last
    return sum(open_groups)


def _strict_end(pattern: str) -> str:
    return "".join(r"\Z" if token[0] == "$" else token[0] for token in _TOKEN.finditer(pattern))
