"""Fail when a Python file has more than 400 lines or a function more than 60."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGES = ("gateway", "agent", "memory", "skills", "tools", "config", "scripts")
FILE_LINES = 400
FUNCTION_LINES = 60


def sources(root: Path, folders: tuple[str, ...] = PACKAGES) -> list[Path]:
    """Every Python file of the packages, sorted."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def problems(path: Path, text: str) -> list[str]:
    """What is too long in one file, one line each, as ``path:line: sentence``."""
    found = []
    lines = text.count("\n")
    if lines > FILE_LINES:
        found.append(f"{path}:1: {lines} lines, the cap is {FILE_LINES}; split the file by what it knows")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines, the cap is {FUNCTION_LINES}")
    return found


def main() -> int:
    """Check every file; prints the problems and returns 1 when there are any."""
    root = Path(__file__).resolve().parent.parent
    found = [
        problem
        for path in sources(root, (*PACKAGES, "tests"))
        for problem in problems(path.relative_to(root), path.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or "sizes: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
