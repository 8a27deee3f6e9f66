"""Checks a call's arguments against its parameter schema: strict, local, and always finished soon.

Our own and not ``jsonschema``: every object that lists its fields is closed unless its schema opens it, unknown fields
get the nearest name, nulls of optional fields are dropped, problems are sentences for the person, patterns run under a
time limit, the whole check under a step limit, and no reference ever leaves the schema. The library offers none of
these, and wrapping it would be longer than this file. The keywords are those of drafts 4 to 2020-12.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tools.schema_nodes import (
    Node,
    ObjectRule,
    all_rule,
    choice_rule,
    contains_rule,
    extra_rule,
    if_rule,
    items_rule,
    names_rule,
    needs_rule,
    not_rule,
    plain,
    properties_rule,
    unique_rule,
    when_rule,
)
from tools.schema_rules import (
    Path,
    Problem,
    Rule,
    Run,
    SchemaError,
    TooComplex,
    compile_pattern,
    read_types,
    size_rule,
    value_rules,
)

__all__ = ["Checker", "Problem", "SchemaError", "compile_schema"]

_MAX_SCHEMA_DEPTH = 100


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
        asked for; otherwise untouched) and every problem."""
        if not isinstance(arguments, Mapping):
            run = Run()
            run.add((), "not_an_object")
            return {}, run.problems
        run = Run()
        cleaned: dict[str, Any] = dict(arguments)
        try:
            self._root.apply(cleaned, (), run, always_closed=True)
            if run.dropped or run.integral:
                cleaned = _clean(cleaned, run)
                run = Run()
                self._root.apply(cleaned, (), run, always_closed=True)
        except (TooComplex, RecursionError):
            run = Run()
            run.add((), "too_complex")
        return cleaned, _without_repeats(run.problems)


def compile_schema(schema: Mapping[str, Any] | bool | None) -> Checker:
    """Compile a tool's parameter schema once. Raises SchemaError for what can never be checked (remote or missing $ref,
    unknown types, broken patterns), so a bad tool is found at start."""
    given: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    compiler = _Compiler(given)
    root = compiler.compile(given, 0)
    if root.types is None:
        root.types = frozenset({"object"})
    return Checker(root)


def _clean(value: dict[str, Any], run: Run) -> dict[str, Any]:
    cleaned = copy.deepcopy(value)
    for path in run.integral:
        holder = _holder(cleaned, path)
        if holder is not None and isinstance(holder[path[-1]], float):
            holder[path[-1]] = int(holder[path[-1]])
    for path in sorted(set(run.dropped), key=len, reverse=True):
        holder = _holder(cleaned, path)
        if isinstance(holder, dict):
            holder.pop(path[-1], None)
    return cleaned


def _holder(value: Any, path: Path) -> Any:
    for part in path[:-1]:
        value = value[part]
    return value if path else None


def _without_repeats(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))


class _Compiler:
    """Turns schemas into nodes; every ``$ref`` target is compiled once, so recursion in the schema ends."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._by_pointer: dict[str, Node] = {}

    def compile(self, schema: Any, depth: int) -> Node:
        node = Node()
        self._fill(node, schema, depth)
        return node

    def _fill(self, node: Node, schema: Any, depth: int) -> None:
        if depth > _MAX_SCHEMA_DEPTH:
            raise SchemaError("the schema is nested too deep")
        if schema is False:
            node.rules.append(lambda value, path, run: run.add(path, "never"))
            return
        if schema is True or schema is None:
            return
        if not isinstance(schema, Mapping):
            raise SchemaError(f"a schema must be an object, not {type(schema).__name__}")
        node.types = read_types(schema)
        node.rules.extend(value_rules(schema))
        node.rules.extend(self._array_rules(schema, depth + 1))
        node.object_rules.extend(self._object_rules(schema, depth + 1))
        node.object_rules.extend(self._combining_rules(schema, depth + 1))

    # references ------------------------------------------------------------------------------------------------------
    def _reference(self, pointer: Any, depth: int) -> Node:
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            raise SchemaError("a $ref may only point inside the same schema")
        if pointer not in self._by_pointer:
            node = self._by_pointer[pointer] = Node()
            self._fill(node, self._target(pointer), depth)
        return self._by_pointer[pointer]

    def _target(self, pointer: str) -> Any:
        target: Any = self._root
        for part in pointer[1:].split("/")[1:] if pointer.startswith("#/") else ():
            key = part.replace("~1", "/").replace("~0", "~").replace("%25", "%")
            try:
                target = target[int(key)] if isinstance(target, list) else target[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise SchemaError(f"$ref {pointer} points nowhere") from None
        if pointer not in ("#",) and not pointer.startswith("#/"):
            target = _find_anchor(self._root, pointer[1:], 0)
            if target is None:
                raise SchemaError(f"$ref {pointer} points nowhere")
        return target

    # arrays ----------------------------------------------------------------------------------------------------------
    def _array_rules(self, schema: Mapping[str, Any], depth: int) -> list[Rule]:
        rules: list[Rule] = []
        items = schema.get("items")
        first = items if isinstance(items, list) else schema.get("prefixItems", [])
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        rest = schema.get("unevaluatedItems") if rest is None else rest
        if first or rest is not None:
            heads = [self.compile(item, depth) for item in first]
            rules.append(items_rule(heads, None if rest is None else self.compile(rest, depth)))
        for key, code, least in (("minItems", "min_items", True), ("maxItems", "max_items", False)):
            if isinstance(schema.get(key), int):
                rules.append(size_rule(code, schema[key], list, least=least))
        if schema.get("uniqueItems") is True:
            rules.append(unique_rule)
        if "contains" in schema:
            least, most = schema.get("minContains", 1), schema.get("maxContains")
            rules.append(contains_rule(self.compile(schema["contains"], depth), least, most))
        return rules

    # objects ---------------------------------------------------------------------------------------------------------
    def _object_rules(self, schema: Mapping[str, Any], depth: int) -> list[ObjectRule]:
        rules: list[ObjectRule] = []
        properties = schema.get("properties") or {}
        if not isinstance(properties, Mapping):
            raise SchemaError("properties must be an object")
        required = _required_names(schema, properties)
        nodes = {str(name): self.compile(sub, depth) for name, sub in properties.items()}
        patterns = [(compile_pattern(p), self.compile(s, depth)) for p, s in (schema.get("patternProperties") or {}).items()]
        rules.append(properties_rule(nodes, patterns, required))
        extra = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        if extra is not None or properties or patterns:
            known_here = "additionalProperties" in schema
            extra_node = self.compile(extra, depth) if isinstance(extra, Mapping) else None
            rules.append(extra_rule(extra, extra_node, set(nodes), [p for p, _ in patterns], only_here=known_here))
        for key, code, least in (("minProperties", "min_properties", True), ("maxProperties", "max_properties", False)):
            if isinstance(schema.get(key), int):
                rules.append(plain(size_rule(code, schema[key], dict, least=least)))
        if "propertyNames" in schema:
            rules.append(plain(names_rule(self.compile(schema["propertyNames"], depth))))
        for key in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, needs in (schema.get(key) or {}).items():
                rules.append(needs_rule(name, needs) if isinstance(needs, list) else when_rule(name, self.compile(needs, depth)))
        return rules

    # combinations ----------------------------------------------------------------------------------------------------
    def _combining_rules(self, schema: Mapping[str, Any], depth: int) -> list[ObjectRule]:
        rules: list[ObjectRule] = []
        for key in ("$ref", "$dynamicRef"):
            if key in schema:
                rules.append(all_rule([self._reference(schema[key], depth)]))
        if isinstance(schema.get("allOf"), list):
            rules.append(all_rule([self.compile(item, depth) for item in schema["allOf"]]))
        for key, only_one in (("anyOf", False), ("oneOf", True)):
            if isinstance(schema.get(key), list) and schema[key]:
                rules.append(choice_rule([self.compile(item, depth) for item in schema[key]], only_one=only_one))
        if "not" in schema:
            rules.append(not_rule(self.compile(schema["not"], depth)))
        if "if" in schema:
            parts = [self.compile(schema.get(key, True), depth) for key in ("if", "then", "else")]
            rules.append(if_rule(*parts))
        return rules


def _find_anchor(schema: Any, name: str, depth: int) -> Any:
    if depth > _MAX_SCHEMA_DEPTH:
        return None
    if isinstance(schema, Mapping):
        if name in (schema.get("$anchor"), schema.get("$dynamicAnchor")):
            return schema
        schema = list(schema.values())
    if isinstance(schema, list):
        return next((hit for item in schema if (hit := _find_anchor(item, name, depth + 1)) is not None), None)
    return None


def _required_names(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> list[str]:
    given = schema.get("required")
    names = [str(name) for name in given] if isinstance(given, list) else []
    flagged = [str(name) for name, sub in properties.items() if isinstance(sub, Mapping) and sub.get("required") is True]
    return list(dict.fromkeys(names + flagged))  # draft 3 flags the field itself
