"""Compiled schemas: a node per schema, with the rules for arrays, objects and combinations of schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools import texts
from tools.schema_patterns import Matcher
from tools.schema_rules import Rule, canonical, fits_type, type_name
from tools.schema_run import Path, Run, TooComplex

_MAX_DEPTH = 64
_NULL = frozenset({"null"})


class Node:
    """One compiled schema."""

    __slots__ = ("rules", "types")

    def __init__(self) -> None:
        self.types: frozenset[str] | None = None
        self.rules: list[Rule] = []

    def apply(self, value: Any, path: Path, run: Run) -> None:
        """Check one value. Raises TooComplex when the check has gone too deep or on too long."""
        run.step()
        if len(path) > _MAX_DEPTH:
            raise TooComplex
        if self.types is not None:
            if not fits_type(value, self.types):
                expected = texts.OR.join(texts.TYPE_WORDS[name] for name in sorted(self.types))
                run.add(path, "type", expected=expected, given=texts.GIVEN_WORDS.get(type_name(value), type_name(value)))
                return
            if isinstance(value, float) and "integer" in self.types and "number" not in self.types:
                run.integral.add(path)
        for rule in self.rules:
            rule(value, path, run)

    def fits(self, value: Any, path: Path, run: Run) -> Run | None:
        """The branch of the run in which this schema fits the value as it is, or None."""
        branch = run.fork(as_it_is=True)
        self.apply(value, path, branch)
        return None if branch.found else branch


# objects -------------------------------------------------------------------------------------------------------------
def is_object(value: Any) -> bool:
    """Whether a value is a JSON object."""
    return isinstance(value, Mapping)


def fields_rule(
    nodes: dict[str, Node], patterns: list[tuple[Matcher, Node]], required: list[str], extra: Node | bool | None
) -> Rule:
    """Fields listed by name or pattern, those that must be there, and the others: ``extra`` refuses them, lets them in or
    checks them; None leaves them to the other schemas of the same object."""

    def named(name: str, run: Run) -> list[Node]:
        found = [nodes[name]] if name in nodes else []
        return found + [node for matches, node in patterns if matches(str(name), run)]

    def check(value: Any, path: Path, run: Run) -> None:
        if not isinstance(value, Mapping):
            return
        fields = run.fields_at(path, value)
        fields.declared |= extra is False or bool(nodes or patterns)
        fields.opened |= extra is True or isinstance(extra, Node)
        known = {*nodes, *required}
        for name in required:
            if name not in value:
                run.add((*path, name), "missing")
        for name, item in value.items():
            found = named(name, run)
            if found:
                known.add(name)
            elif isinstance(extra, Node):
                extra.apply(item, (*path, str(name)), run)
            for node in found:
                _apply_field(node, item, (*path, name), run, optional=name not in required)
        fields.names |= known
        if extra is False:
            run.refuse_others(path, value, known)

    return check


def _apply_field(node: Node, item: Any, path: Path, run: Run, *, optional: bool) -> None:
    if item is None and optional and run.nulls_absent and node.fits(item, path, run) is None:
        run.dropped.add(path)
    else:
        node.apply(item, path, run)


def rest_rule(rest: Node | bool) -> Rule:
    """unevaluatedProperties: the fields that no schema of this object has spoken for so far; must be its last rule."""

    def check(value: Any, path: Path, run: Run) -> None:
        if not isinstance(value, Mapping):
            return
        fields = run.fields_at(path, value)
        fields.declared |= rest is False
        if isinstance(rest, Node) and not fields.opened:
            for name, item in value.items():
                if name not in fields.names:
                    rest.apply(item, (*path, str(name)), run)
        fields.opened |= rest is not False

    return check


def names_rule(node: Node) -> Rule:
    """propertyNames."""

    def check(value: Any, path: Path, run: Run) -> None:
        for name in value if isinstance(value, Mapping) else ():
            node.apply(name, (*path, str(name)), run)

    return check


def needs_rule(name: str, needs: list[str]) -> Rule:
    """dependentRequired: a field that calls for others."""

    def check(value: Any, path: Path, run: Run) -> None:
        if isinstance(value, Mapping) and name in value:
            for other in needs:
                if other not in value:
                    run.add((*path, other), "dependency", given=name)

    return check


def when_rule(name: str, node: Node) -> Rule:
    """dependentSchemas: a field that calls for a whole schema."""

    def check(value: Any, path: Path, run: Run) -> None:
        if isinstance(value, Mapping) and name in value:
            node.apply(value, path, run)

    return check


# arrays --------------------------------------------------------------------------------------------------------------
def is_array(value: Any) -> bool:
    """Whether a value is a JSON array."""
    return isinstance(value, (list, tuple))


def items_rule(heads: list[Node], rest: Node | None) -> Rule:
    """Items by position, then the rest."""

    def check(value: Any, path: Path, run: Run) -> None:
        for index, item in enumerate(value if is_array(value) else ()):
            node = heads[index] if index < len(heads) else rest
            if node is not None:
                node.apply(item, (*path, index), run)

    return check


def unique_rule(value: Any, path: Path, run: Run) -> None:
    """uniqueItems."""
    if is_array(value) and len({canonical(item) for item in value}) != len(value):
        run.add(path, "unique_items")


def contains_rule(node: Node, least: int, most: int | None) -> Rule:
    """contains with its least and greatest number."""

    def check(value: Any, path: Path, run: Run) -> None:
        if is_array(value):
            found = sum(node.fits(item, (*path, index), run) is not None for index, item in enumerate(value))
            if found < least or (most is not None and found > most):
                run.add(path, "contains")

    return check


def never_rule(value: Any, path: Path, run: Run) -> None:
    """The schema false."""
    run.add(path, "never")


# combinations --------------------------------------------------------------------------------------------------------
def all_rule(nodes: list[Node]) -> Rule:
    """allOf and $ref: schemas that all apply to this same value."""

    def check(value: Any, path: Path, run: Run) -> None:
        for node in nodes:
            node.apply(value, path, run)

    return check


def choice_rule(nodes: list[Node], *, only_one: bool) -> Rule:
    """anyOf and oneOf: the fields that any fitting branch lists are known. Of several that fit one of, those that list
    every field fit better."""

    def check(value: Any, path: Path, run: Run) -> None:
        tried = [(node, run.fork()) for node in nodes]
        for node, branch in tried:
            node.apply(value, path, branch)
        good = [branch for _, branch in tried if not branch.found]
        if only_one and len(good) > 1:
            for branch in good:
                branch.close(run)
            if exact := [branch for branch in good if not branch.found]:
                good = exact
            if len(exact) != 1:
                run.add(path, "one_of")
        for branch in good:
            run.merge(branch)
        if not good:
            if isinstance(value, Mapping):
                run.fields_at(path, value).opened = True  # which fields it may have hangs on the branch that was meant
            _report_best(path, run, [branch for node, branch in tried if node.types != _NULL] or [tried[0][1]])

    return check


def _report_best(path: Path, run: Run, branches: list[Run]) -> None:
    inside = [branch for branch in branches if any(one.code != "type" or one.path != path for one in branch.found)]
    if inside:
        run.found += min(inside, key=_distance).found
    elif len(branches) == 1:
        run.found += branches[0].found
    else:
        kinds = dict.fromkeys(str(branch.found[0].words["expected"]) for branch in branches)
        run.add(path, "any_of", hint=texts.SUGGEST_VALUES.format(values="、".join(kinds)))


def _distance(branch: Run) -> tuple[int, int]:
    """How far a branch was meant: one whose fixed value (a discriminator) fits is nearer than any other."""
    return sum(one.code in ("const", "enum") for one in branch.found), len(branch.found)


def not_rule(node: Node) -> Rule:
    """not."""

    def check(value: Any, path: Path, run: Run) -> None:
        if node.fits(value, path, run) is not None:
            run.add(path, "not_allowed")

    return check


def if_rule(condition: Node, then: Node, otherwise: Node) -> Rule:
    """if, then, else."""

    def check(value: Any, path: Path, run: Run) -> None:
        branch = condition.fits(value, path, run)
        if branch is not None:
            run.merge(branch)
        (otherwise if branch is None else then).apply(value, path, run)

    return check
