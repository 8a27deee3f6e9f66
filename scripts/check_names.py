"""Fail on what the house rules forbid by name: vague file names, stray clocks, environment reads, asserts, prints."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.check_sizes import PACKAGES, sources

BANNED_FILES = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "manager.py", "managers.py", "misc.py"}
WALL_CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.time_ns"}
CLOCK_FILES = {"config/clock.py", "config/lease.py", "config/ids.py"}
ENVIRONMENT = {"os.environ", "os.getenv", "os.environb", "os.putenv"}
ENVIRONMENT_FILE = "config/settings.py"
PRINTING = re.compile(r"^(gateway/cli(_[a-z]+)*\.py|scripts/.*)$")
SENTENCE = re.compile(r"\S[^\n]*[.。!?]$")


def problems(name: str, text: str) -> list[str]:
    """The broken rules of one file, ``name`` relative to the checkout with slashes, as ``name:line: sentence``."""
    tree = ast.parse(text)
    found = [(line, sentence) for line, sentence in _named(name, tree)]
    for node in ast.walk(tree):
        found.extend(_in_node(name, node))
    return [f"{name}:{line}: {sentence}" for line, sentence in sorted(found)]


def _named(name: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    if name.rsplit("/", 1)[-1] in BANNED_FILES:
        yield 1, "a name that says nothing; name the file after what it knows"
    docstring = ast.get_docstring(tree)
    if not tree.body and name.endswith("__init__.py"):
        return
    if docstring is None:
        yield 1, "the first line must be a docstring that says what the file is"
    elif not SENTENCE.match(docstring.split("\n\n", 1)[0].replace("\n", " ")):
        yield 1, "the file's docstring must begin with one full sentence"


def _in_node(name: str, node: ast.AST) -> Iterator[tuple[int, str]]:
    product = not name.startswith(("scripts/", "tests/"))
    if isinstance(node, ast.Assert) and not name.startswith("tests/"):
        yield node.lineno, "assert is not validation; raise a typed error"
    if isinstance(node, ast.ExceptHandler) and node.type is None:
        yield node.lineno, "a bare except; name what is caught"
    if isinstance(node, ast.Attribute):
        dotted = ".".join(_dotted(node)[-2:])
        if product and dotted in ENVIRONMENT and name != ENVIRONMENT_FILE:
            yield node.lineno, f"{dotted} outside {ENVIRONMENT_FILE}"
        if product and dotted in WALL_CLOCKS and name not in CLOCK_FILES:
            yield node.lineno, f"{dotted} outside config/clock.py; take a Clock"
    if isinstance(node, ast.ImportFrom) and product:
        yield from _imported(name, node)
    if product and isinstance(node, ast.Name) and node.id == "print" and not PRINTING.match(name):
        yield node.lineno, "print outside the command line; use config.logging"


def _imported(name: str, node: ast.ImportFrom) -> Iterator[tuple[int, str]]:
    for alias in node.names:
        dotted = f"{node.module}.{alias.name}"
        if dotted in ENVIRONMENT and name != ENVIRONMENT_FILE:
            yield node.lineno, f"{dotted} outside {ENVIRONMENT_FILE}"
        if dotted in WALL_CLOCKS and name not in CLOCK_FILES:
            yield node.lineno, f"{dotted} outside config/clock.py; take a Clock"


def _dotted(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else ["?"]


def main() -> int:
    """Check every file; prints the problems and returns 1 when there are any."""
    root = Path(__file__).resolve().parent.parent
    found = [
        problem
        for path in sources(root, (*PACKAGES, "tests"))
        for problem in problems(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or "names: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
