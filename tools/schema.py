"""Checks a call's arguments against its parameter schema: strict, local, and always finished soon.

Our own and not ``jsonschema``: every object that lists its fields is closed unless its schema opens it, unknown fields
get the nearest name, nulls of optional fields are dropped, problems are sentences for the person, patterns run under a
time limit, the whole check under a step limit, and no reference ever leaves the schema. The library offers none of
these, and wrapping it would be longer than this file. The keywords are those of drafts 4 to 2020-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from tools.schema_nodes import (
    Node,
    all_rule,
    choice_rule,
    contains_rule,
    fields_rule,
    if_rule,
    is_array,
    is_object,
    items_rule,
    names_rule,
    needs_rule,
    never_rule,
    not_rule,
    rest_rule,
    unique_rule,
    when_rule,
)
from tools.schema_patterns import BadPattern, compile_pattern
from tools.schema_rules import BadKeyword, Rule, SchemaError, count, listed, mapping, read_types, size_rule, value_rules
from tools.schema_run import Path, Problem, Run, TooComplex

__all__ = ["Checker", "Problem", "SchemaError", "compile_schema"]

_MAX_SCHEMA_DEPTH = 100
_MAX_NODES = 20_000
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_COMBINING = frozenset({*_REFERENCES, "allOf", "anyOf", "oneOf", "if", "contains"})


class Checker:
    """A compiled parameter schema; safe to share between threads."""

    def __init__(self, root: Node) -> None:
        self._root = root

    def check(self, arguments: Any) -> list[Problem]:
        """Everything wrong with these parsed arguments; empty means the call may be made. Never raises, never changes
        them. A null for an optional field counts as absent."""
        return self.examine(arguments)[1]

    def examine(self, arguments: Any) -> tuple[dict[str, Any], list[Problem]]:
        """The arguments as the tool gets them (nulls of optional fields dropped, 3.0 given as 3 where an integer is
        asked for; otherwise untouched) and every problem. What fits as it is keeps its nulls."""
        run = Run()
        if not isinstance(arguments, Mapping):
            run.add((), "not_an_object")
            return {}, run.problems()
        cleaned = dict(arguments)
        try:
            run = self._run(cleaned)
            if run.found and (dropped := self._run(cleaned, nulls_absent=True).dropped):
                cleaned = _without(cleaned, (), dropped)
                run = self._run(cleaned)
            if run.integral:
                cleaned = _whole(cleaned, (), run.integral)
        except (TooComplex, RecursionError):
            run = Run()
            run.add((), "too_complex")
        return cleaned, run.problems()

    def _run(self, arguments: dict[str, Any], *, nulls_absent: bool = False) -> Run:
        run = Run(nulls_absent=nulls_absent)
        run.fields_at((), arguments).declared = True  # a call has no fields but those its tool names
        self._root.apply(arguments, (), run)
        run.close()
        return run


def compile_schema(schema: Mapping[str, Any] | bool | None) -> Checker:
    """Compile a tool's parameter schema once (None: it takes no arguments). Raises SchemaError, saying where, for what can
    never be checked: remote or missing $ref, unknown types, broken patterns, keywords of the wrong form, endless depth or
    size. So a bad tool is found at start."""
    try:
        root = _Compiler({} if schema is None else schema).root()
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    if root.types is None:
        root.types = frozenset({"object"})
    if "object" not in root.types:
        raise SchemaError("the parameters must be an object")
    return Checker(root)


def _without(value: Any, path: Path, dropped: set[Path]) -> Any:
    if isinstance(value, Mapping):
        kept = {name: item for name, item in value.items() if (*path, name) not in dropped}
        return {name: _without(item, (*path, name), dropped) for name, item in kept.items()}
    return [_without(item, (*path, index), dropped) for index, item in enumerate(value)] if is_array(value) else value


def _whole(value: Any, path: Path, integral: set[Path]) -> Any:
    if isinstance(value, Mapping):
        return {name: _whole(item, (*path, name), integral) for name, item in value.items()}
    if is_array(value):
        return [_whole(item, (*path, index), integral) for index, item in enumerate(value)]
    return int(value) if path in integral and isinstance(value, float) else value


class _Compiler:
    """Turns schemas into nodes. Every ``$ref`` target is compiled once and by itself, so recursion in the schema ends."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._by_pointer: dict[str, Node] = {}
        self._owed: list[str] = []
        self._nodes = 0

    def root(self) -> Node:
        root = self._compile(self._schema, ())
        while self._owed:
            pointer = self._owed.pop()
            self._fill(self._by_pointer[pointer], self._target(pointer), (pointer,))
        return root

    def _compile(self, schema: Any, where: Path) -> Node:
        node = Node()
        self._fill(node, schema, where)
        return node

    def _fill(self, node: Node, schema: Any, where: Path) -> None:
        self._nodes += 1
        if len(where) > _MAX_SCHEMA_DEPTH:
            raise SchemaError("the schema is nested too deep")
        if self._nodes > _MAX_NODES:
            raise SchemaError("the schema is too large")
        if schema is False:
            node.rules.append(never_rule)
        if schema is None or isinstance(schema, bool):
            return
        try:
            if not isinstance(schema, Mapping):
                raise BadKeyword(f"a schema must be an object, not {type(schema).__name__}")
            node.types = read_types(schema)
            node.rules += value_rules(schema, node.types)
            node.rules += self._array_rules(schema, where)
            node.rules += self._object_rules(schema, where)
            node.rules += self._combining_rules(schema, where)
            if "additionalProperties" not in schema and isinstance(rest := schema.get("unevaluatedProperties"), (bool, Mapping)):
                node.rules.append(rest_rule(self._or_flag(rest, (*where, "unevaluatedProperties"))))
        except (BadKeyword, BadPattern) as error:
            raise SchemaError(f"{'/'.join(map(str, where)) or 'the schema'}: {error}"[:300]) from None

    def _or_flag(self, schema: Any, where: Path) -> Node | bool:
        return schema if isinstance(schema, bool) else self._compile(schema, where)

    def _all(self, schema: Mapping[str, Any], key: str, where: Path) -> list[Node]:
        return [self._compile(item, (*where, f"{key}/{index}")) for index, item in enumerate(listed(schema, key) or ())]

    def _named(self, schema: Mapping[str, Any], key: str, where: Path) -> dict[str, Node]:
        return {name: self._compile(item, (*where, f"{key}/{name}")) for name, item in mapping(schema, key).items()}

    # references ------------------------------------------------------------------------------------------------------
    def _reference(self, pointer: Any) -> Node:
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            raise BadKeyword("a $ref may only point inside the same schema")
        if pointer not in self._by_pointer:
            self._by_pointer[pointer] = Node()
            self._owed.append(pointer)
        return self._by_pointer[pointer]

    def _target(self, pointer: str) -> Any:
        name = unquote(pointer[1:])
        try:
            if name and not name.startswith("/"):
                return self._anchors[name]
            target = self._schema
            for part in name.split("/")[1:]:
                key = part.replace("~1", "/").replace("~0", "~")
                target = target[int(key) if is_array(target) and key.isdecimal() else key]
        except (KeyError, IndexError, TypeError, ValueError):
            raise SchemaError(f"$ref {pointer[:200]} points nowhere") from None
        return target

    @cached_property
    def _anchors(self) -> dict[str, Any]:
        return {
            part[key]: part
            for part in _parts(self._schema)
            for key in ("$dynamicAnchor", "$anchor")
            if isinstance(part.get(key), str)
        }

    # arrays ----------------------------------------------------------------------------------------------------------
    def _array_rules(self, schema: Mapping[str, Any], where: Path) -> Iterator[Rule]:
        by_place = is_array(schema.get("items"))  # up to draft 2019-09
        heads = self._all(schema, "items" if by_place else "prefixItems", where)
        key = "additionalItems" if by_place else "items"
        if schema.get(key) is None and schema.get("unevaluatedItems") is not None:
            key = "unevaluatedItems"
            if _COMBINING & schema.keys():
                raise BadKeyword("unevaluatedItems beside other schemas of the same list is not supported")
        rest = None if schema.get(key) is None else self._compile(schema[key], (*where, key))
        if heads or rest is not None:
            yield items_rule(heads, rest)
        for key, code, least in (("minItems", "min_items", True), ("maxItems", "max_items", False)):
            if (limit := count(schema, key)) is not None:
                yield size_rule(code, limit, is_array, least=least)
        if schema.get("uniqueItems") is True:
            yield unique_rule
        if "contains" in schema:
            fewest, most = count(schema, "minContains"), count(schema, "maxContains")
            yield contains_rule(self._compile(schema["contains"], (*where, "contains")), 1 if fewest is None else fewest, most)

    # objects ---------------------------------------------------------------------------------------------------------
    def _object_rules(self, schema: Mapping[str, Any], where: Path) -> Iterator[Rule]:
        extra = schema.get("additionalProperties")
        yield fields_rule(
            self._named(schema, "properties", where),
            [(compile_pattern(pattern), node) for pattern, node in self._named(schema, "patternProperties", where).items()],
            _required_names(schema),
            None if extra is None else self._or_flag(extra, (*where, "additionalProperties")),
        )
        for key, code, least in (("minProperties", "min_properties", True), ("maxProperties", "max_properties", False)):
            if (limit := count(schema, key)) is not None:
                yield size_rule(code, limit, is_object, least=least)
        if "propertyNames" in schema:
            yield names_rule(self._compile(schema["propertyNames"], (*where, "propertyNames")))
        for key in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, needs in mapping(schema, key).items():
                if is_array(needs):
                    yield needs_rule(name, [str(other) for other in needs])
                else:
                    yield when_rule(name, self._compile(needs, (*where, f"{key}/{name}")))

    # combinations ----------------------------------------------------------------------------------------------------
    def _combining_rules(self, schema: Mapping[str, Any], where: Path) -> Iterator[Rule]:
        for key in _REFERENCES:
            if key in schema:
                yield all_rule([self._reference(schema[key])])
        for key in ("allOf", "anyOf", "oneOf"):
            if schema.get(key) is None:
                continue
            nodes = self._all(schema, key, where)
            if not nodes:
                raise BadKeyword(f"{key} must name a schema")
            yield all_rule(nodes) if key == "allOf" else choice_rule(nodes, only_one=key == "oneOf")
        if "not" in schema:
            yield not_rule(self._compile(schema["not"], (*where, "not")))
        if "if" in schema:
            condition, then, otherwise = (self._compile(schema.get(key, True), (*where, key)) for key in ("if", "then", "else"))
            yield if_rule(condition, then, otherwise)


def _required_names(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("required")
    names = [] if isinstance(given, bool) else listed(schema, "required") or []
    flagged = [
        name for name, sub in mapping(schema, "properties").items() if isinstance(sub, Mapping) and sub.get("required") is True
    ]
    return list(dict.fromkeys([*map(str, names), *flagged]))  # draft 3 flags the field itself


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema."""
    ahead = [schema]
    while ahead:
        part = ahead.pop()
        if isinstance(part, Mapping):
            yield part
            ahead += part.values()
        elif is_array(part):
            ahead += part
