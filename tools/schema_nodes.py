"""Compiled schemas: a node per schema, with the rules for arrays, objects and combinations of schemas."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools import texts
from tools.schema_rules import Matcher, Path, Rule, Run, TooComplex, canonical, fits_type, show_path, type_name

_MAX_DEPTH = 64
_GUESSES = 20
"""So many unknown names get the nearest known one; nobody reads more, and each costs."""
_NAME_CHARS = 200


@dataclass(slots=True)
class Seen:
    """Which fields of one object some schema has spoken for. ``declared``: fields are listed, so the object is closed."""

    names: set[str] = field(default_factory=set)
    declared: bool = False
    everything: bool = False

    def merge(self, other: Seen) -> None:
        self.names |= other.names
        self.declared |= other.declared
        self.everything |= other.everything


ObjectRule = Callable[[Any, Path, Run, Seen], None]


class Node:
    """One compiled schema."""

    __slots__ = ("object_rules", "rules", "types")

    def __init__(self) -> None:
        self.types: frozenset[str] | None = None
        self.rules: list[Rule] = []
        self.object_rules: list[ObjectRule] = []

    def apply(self, value: Any, path: Path, run: Run, *, closed: bool = True, always_closed: bool = False) -> Seen:
        """Check one value. ``closed``: this is the whole schema of the value, so unknown fields are looked for."""
        run.step()
        if len(path) > _MAX_DEPTH:
            raise TooComplex
        seen = Seen(declared=always_closed)
        if self.types is not None and not fits_type(value, self.types):
            expected = "或".join(texts.TYPE_WORDS[name] for name in sorted(self.types))
            run.add(path, "type", expected=expected, given=texts.TYPE_WORDS.get(type_name(value), type_name(value)))
            seen.everything = True
            return seen
        if self.types is not None and isinstance(value, float) and "integer" in self.types and "number" not in self.types:
            run.integral.append(path)
        for rule in self.rules:
            rule(value, path, run)
        for object_rule in self.object_rules:
            object_rule(value, path, run, seen)
        if closed and isinstance(value, Mapping) and seen.declared and not seen.everything:
            _report_unknown(value, path, run, seen.names)
        return seen


def _report_unknown(value: Mapping[str, Any], path: Path, run: Run, names: set[str]) -> None:
    free = sorted(names - value.keys()) or sorted(names)
    for name in value:
        if name not in names:
            guess = len(run.problems) < _GUESSES and len(str(name)) <= _NAME_CHARS
            near = difflib.get_close_matches(str(name), free, 1, 0.6) if guess else []
            suggestion = texts.SUGGEST_NAME.format(name=near[0]) if near else None
            if suggestion is None and names:
                suggestion = texts.SUGGEST_VALUES.format(values="、".join(sorted(names)[:20]))
            run.add((*path, str(name)), "unknown_field", suggestion=suggestion)


def plain(rule: Rule) -> ObjectRule:
    """A rule that speaks for no field."""
    return lambda value, path, run, seen: rule(value, path, run)


def properties_rule(nodes: dict[str, Node], patterns: list[tuple[Matcher, Node]], required: list[str]) -> ObjectRule:
    """Fields listed by name or pattern, and those that must be there."""

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        if not isinstance(value, Mapping):
            return
        for name in required:
            if name not in value:
                run.add((*path, name), "missing")
        seen.names |= nodes.keys() | set(required)
        for name, item in value.items():
            if name in nodes:
                _apply_field(nodes[name], item, (*path, name), run, optional=name not in required)
            for matches, node in patterns:
                if run.matches(matches, str(name)):
                    seen.names.add(name)
                    _apply_field(node, item, (*path, name), run, optional=name not in required)

    return check


def _apply_field(node: Node, item: Any, path: Path, run: Run, *, optional: bool) -> None:
    if item is None and optional:
        branch = run.fork()
        node.apply(item, path, branch)
        if branch.problems:
            run.dropped.append(path)
        return
    node.apply(item, path, run)


def extra_rule(
    extra: Any,
    node: Node | None,
    names: set[str],
    patterns: list[Matcher],
    *,
    only_here: bool,
) -> ObjectRule:
    """What happens to fields that are not listed: refused unless the schema opens the object."""

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        if not isinstance(value, Mapping):
            return
        if extra is None or extra is False:
            seen.declared = True
            if only_here and extra is False:
                _report_unknown(value, path, run, names | {n for n in value if any(run.matches(m, str(n)) for m in patterns)})
            return
        seen.everything = True
        for name, item in value.items() if node is not None else ():
            if node is not None and name not in names and not any(run.matches(one, str(name)) for one in patterns):
                node.apply(item, (*path, str(name)), run)

    return check


def names_rule(node: Node) -> Rule:
    """propertyNames."""

    def check(value: Any, path: Path, run: Run) -> None:
        for name in value if isinstance(value, Mapping) else ():
            node.apply(name, (*path, str(name)), run)

    return check


def needs_rule(name: str, needs: list[Any]) -> ObjectRule:
    """dependentRequired: a field that calls for others."""

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        if isinstance(value, Mapping) and name in value:
            for other in needs:
                if other not in value:
                    run.add((*path, str(other)), "dependency", given=name)

    return check


def when_rule(name: str, node: Node) -> ObjectRule:
    """dependentSchemas: a field that calls for a whole schema."""

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        if isinstance(value, Mapping) and name in value:
            seen.merge(node.apply(value, path, run, closed=False))

    return check


def items_rule(heads: list[Node], rest: Node | None) -> Rule:
    """Items by position, then the rest."""

    def check(value: Any, path: Path, run: Run) -> None:
        if not isinstance(value, (list, tuple)):
            return
        for index, item in enumerate(value):
            node = heads[index] if index < len(heads) else rest
            if node is not None:
                node.apply(item, (*path, index), run)

    return check


def unique_rule(value: Any, path: Path, run: Run) -> None:
    """uniqueItems."""
    if isinstance(value, list) and len({canonical(item) for item in value}) != len(value):
        run.add(path, "unique_items")


def contains_rule(node: Node, least: int, most: int | None) -> Rule:
    """contains with its least and greatest number."""

    def check(value: Any, path: Path, run: Run) -> None:
        if not isinstance(value, list):
            return
        count = 0
        for index, item in enumerate(value):
            branch = run.fork()
            node.apply(item, (*path, index), branch)
            count += not branch.problems
        if count < least or (most is not None and count > most):
            run.add(path, "contains")

    return check


def all_rule(nodes: list[Node]) -> ObjectRule:
    """allOf and $ref: schemas that all apply to this same value."""

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        for node in nodes:
            seen.merge(node.apply(value, path, run, closed=False))

    return check


def choice_rule(nodes: list[Node], *, only_one: bool) -> ObjectRule:
    """anyOf and oneOf. Branches are tried open; fields count as known when a fitting branch lists them."""

    def fitting(value: Any, path: Path, run: Run, *, closed: bool) -> tuple[list[tuple[Run, Seen]], list[Run]]:
        good, bad = [], []
        for node in nodes:
            branch = run.fork()
            seen = node.apply(value, path, branch, closed=closed)
            if branch.problems:
                bad.append(branch)
            else:
                good.append((branch, seen))
        return good, bad

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        good, bad = fitting(value, path, run, closed=False)
        if not good:
            seen.everything = True
            _report_best(path, run, bad)
            return
        if only_one and len(good) > 1:
            closed_good, _ = fitting(value, path, run, closed=True)
            if len(closed_good) != 1:
                run.add(path, "one_of")
            good = closed_good or good
        for branch, branch_seen in good:
            run.merge(branch)
            seen.merge(branch_seen)

    return check


def _report_best(path: Path, run: Run, branches: list[Run]) -> None:
    here = show_path(path)
    inside = [branch for branch in branches if any(p.code != "type" or p.path != here for p in branch.problems)]
    if inside:
        run.problems += min(inside, key=_distance).problems
        return
    expected = [branch.problems[0] for branch in branches]
    if len(expected) == 1:
        run.problems.append(expected[0])
    else:
        run.add(path, "any_of", suggestion="；".join(problem.message for problem in expected[:4]))


def _distance(branch: Run) -> tuple[int, int]:
    """How far a branch was meant: one whose fixed value (a discriminator) fits is nearer than any other."""
    return sum(problem.code in ("const", "enum") for problem in branch.problems), len(branch.problems)


def not_rule(node: Node) -> ObjectRule:
    """not."""

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        branch = run.fork()
        node.apply(value, path, branch, closed=False)
        if not branch.problems:
            run.add(path, "not_allowed")

    return check


def if_rule(condition: Node, then: Node, otherwise: Node) -> ObjectRule:
    """if, then, else."""

    def check(value: Any, path: Path, run: Run, seen: Seen) -> None:
        branch = run.fork()
        branch_seen = condition.apply(value, path, branch, closed=False)
        if not branch.problems:
            seen.merge(branch_seen)
        seen.merge((otherwise if branch.problems else then).apply(value, path, run, closed=False))

    return check
