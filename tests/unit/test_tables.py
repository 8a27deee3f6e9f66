"""The tables of rules, requirements and cases tell the truth: each test they name exists and names its id."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLES = (ROOT / "RULES.md", ROOT / "cases" / "AGENT.md")
_ROW = re.compile(r"^\| ([A-Z][A-Z0-9]*-?[0-9]+)\b.*\|", re.MULTILINE)
_TEST = re.compile(r"`([a-z_0-9/]+\.py)(?:::(test_[a-z_0-9]+))?`")


@cache
def _words(file: Path) -> dict[str, str]:
    """Test name → its name, docstring and decorators; the empty name is the whole file."""
    source = file.read_text("utf-8")
    tree = ast.parse(source)
    module = ast.get_docstring(tree) or ""
    found = {"": source}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            decorators = " ".join(ast.unparse(one) for one in node.decorator_list)
            found[node.name] = f"{node.name} {ast.get_docstring(node) or ''} {decorators} {module}"
    return found


def _rows() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    for table in TABLES:
        for row in _ROW.finditer(table.read_text("utf-8")):
            tests = [(file, name or "") for file, name in _TEST.findall(row.group())]
            if tests:
                yield table.name, row.group(1), tests


@pytest.mark.parametrize(
    ("table", "identity", "tests"), [pytest.param(*row, id=f"{row[1]}-{n}") for n, row in enumerate(_rows())]
)
def test_every_test_named_exists_and_one_names_the_id(table: str, identity: str, tests: list[tuple[str, str]]) -> None:
    """A renamed or removed test is found here, and so is a line that points at tests of something else."""
    missing = [f"{file}::{name}" for file, name in tests if not (ROOT / file).is_file() or name not in _words(ROOT / file)]
    assert missing == [], f"{table}: {identity} names tests that are not there"
    spellings = {identity, identity.lower().replace("-", "_"), identity.replace("-", "").lower()}
    told = [_words(ROOT / file)[name] for file, name in tests]
    named = any(re.search(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![0-9])", text) for one in spellings for text in told)
    assert named, f"{table}: no test of this line names {identity}"
