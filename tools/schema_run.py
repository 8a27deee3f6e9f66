"""One check of a call's arguments in progress: the problems found, the fields spoken for, and the steps left."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools import texts
from tools.prompt import visible

Path = tuple[str | int, ...]
_NAME_CHARS = 80
_MAX_STEPS = 100_000
"""What the longest arguments that are read (64 KB of one-digit numbers) need when each item has a choice of two."""
_GUESSES = 20
"""So many wrong names get the nearest right one; nobody reads more, and each costs."""
_GUESS_CHARS = 200
_GUESS_AMONG = 500


class TooComplex(Exception):
    """The check took more steps than any honest call needs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a call's arguments. ``path`` is like ``items[0].name`` (empty: the whole), ``code`` stable,
    ``message`` Chinese for the person, ``suggestion`` the nearest name or the allowed values, or None."""

    path: str
    code: str
    message: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before it is put into words, which only those of the branch that was meant are. ``wrong``: the word that
    was given in place of one of ``right``."""

    path: Path
    code: str
    words: Mapping[str, object]
    hint: str | None = None
    wrong: str | None = None
    right: Collection[str] = ()


@dataclass(slots=True)
class Fields:
    """What all schemas that apply to one object say about its fields. ``declared``: some list fields, so the object is
    closed to others; ``opened``: one lets any field in."""

    value: Mapping[str, Any]
    names: set[str] = field(default_factory=set)
    declared: bool = False
    opened: bool = False


@dataclass(slots=True)
class Run:
    """One check in progress: findings, and what the cleaning pass will do (nulls to drop, 3.0 that means 3)."""

    found: list[Finding] = field(default_factory=list)
    dropped: set[Path] = field(default_factory=set)
    integral: set[Path] = field(default_factory=set)
    fields: dict[Path, Fields] = field(default_factory=dict)
    steps: list[float] = field(default_factory=lambda: [0.0])
    nulls_absent: bool = False
    """A null that does not fit its optional field counts as absent, and is to be dropped."""

    def step(self, count: float = 1) -> None:
        """Count one schema applied to one value, over all branches. Raises TooComplex past the limit."""
        self.steps[0] += count
        if self.steps[0] > _MAX_STEPS:
            raise TooComplex

    def fields_at(self, path: Path, value: Mapping[str, Any]) -> Fields:
        """What is known so far about the fields of the object at this path."""
        return self.fields.setdefault(path, Fields(value))

    def fork(self, *, as_it_is: bool = False) -> Run:
        """A run for a branch that may turn out not to apply; it shares the step budget."""
        return Run(steps=self.steps, nulls_absent=self.nulls_absent and not as_it_is)

    def merge(self, branch: Run) -> None:
        """Take over what a branch that applies says about fields, and what it wants cleaned."""
        self.dropped |= branch.dropped
        self.integral |= branch.integral
        for path, theirs in branch.fields.items():
            ours = self.fields_at(path, theirs.value)
            ours.names |= theirs.names
            ours.declared |= theirs.declared
            ours.opened |= theirs.opened

    def close(self, around: Run | None = None) -> None:
        """Refuse the fields nobody spoke for, once every schema has had its say. ``around``: the run a branch is for."""
        for path, ours in self.fields.items():
            outer = around.fields.get(path) if around is not None else None
            opened = ours.opened or (outer is not None and outer.opened)
            if ours.declared and not opened:
                self.refuse_others(path, ours.value, ours.names | outer.names if outer is not None else ours.names)

    def refuse_others(self, path: Path, value: Mapping[str, Any], names: set[str]) -> None:
        """A problem for each field of the object that is not one of the names, with the nearest that is still free."""
        others = [str(name) for name in value if name not in names]
        if others:
            free = names - value.keys() or names
            hint = texts.SUGGEST_VALUES.format(values=listing(sorted(names))) if names else None
            for name in others:
                self.add((*path, name), "unknown_field", hint=hint, wrong=name, right=free)

    def add(
        self,
        path: Path,
        code: str,
        *,
        hint: str | None = None,
        wrong: str | None = None,
        right: Collection[str] = (),
        **words: object,
    ) -> None:
        """Record a finding; its sentence is built from texts.PROBLEMS and ``words``."""
        self.found.append(Finding(path, code, words, hint, wrong, right))

    def problems(self) -> list[Problem]:
        """What was found, in words; each problem of a field once."""
        once = {(finding.path, finding.code): finding for finding in reversed(self.found)}
        return [_problem(finding, guess=index < _GUESSES) for index, finding in enumerate(reversed(once.values()))]


def _problem(finding: Finding, *, guess: bool) -> Problem:
    shown = show_path(finding.path)
    name = visible(_cut(shown)) or texts.ARGUMENTS
    message = texts.PROBLEMS[finding.code].format(**{"name": name, "given": "", "expected": "", **finding.words})
    hint = finding.hint
    if guess and finding.wrong is not None and (near := _nearest(finding.wrong, finding.right)) is not None:
        hint = texts.SUGGEST_NAME.format(name=near)
    return Problem(shown, finding.code, message, hint)


def _nearest(word: str, names: Collection[str]) -> str | None:
    """The name most like this word, whatever the case; None when none is like it."""
    if len(word) > _GUESS_CHARS:
        return None
    folded = {name.casefold(): name for name in sorted(names)[:_GUESS_AMONG]}
    near = difflib.get_close_matches(word.casefold(), folded, 1, 0.6)
    return folded[near[0]] if near else None


def show_path(path: Path) -> str:
    """A path as people read it: ``items[0].name``."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else (f".{part}" if shown else part)
    return shown


def listing(words: list[str], limit: int = 20) -> str:
    """The first words of a list for a sentence, each cut."""
    return "、".join(_cut(word) for word in words[:limit]) + ("……" if len(words) > limit else "")


def _cut(text: str) -> str:
    return text if len(text) <= _NAME_CHARS else text[:_NAME_CHARS] + "…"
