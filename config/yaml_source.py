"""Strict YAML: plain data plus where every value was written; duplicate keys and missing variables are problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from config import texts

Path_ = tuple[str | int, ...]
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(slots=True)
class Source:
    """Parsed settings: ``data``, per path its origin (``file:line``) and raw text, and what was wrong already."""

    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path_, str] = field(default_factory=dict)
    raw: dict[Path_, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    from_environment: set[Path_] = field(default_factory=set)
    """Paths that an environment variable overrode."""

    def origin(self, path: Path_) -> str:
        """Where the value at ``path``, or the section it belongs in, was written."""
        for length in range(len(path), 0 if path else -1, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return texts.DEFAULTS

    def add(self, path: Path_, problem: str) -> None:
        """Note what is wrong with the value at ``path``."""
        self.problems.append(texts.PROBLEM.format(where=dotted(path), problem=problem, origin=self.origin(path)))


class _Loader(yaml.SafeLoader):
    """SafeLoader, used for scalars only."""


def parse_yaml(text: str, name: str, environ: Mapping[str, str]) -> Source:
    """Parse YAML text called ``name`` in messages; ``${ENV}`` inside scalars is replaced. Never raises for the content."""
    source = Source()
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return source
        if not isinstance(node, yaml.MappingNode):
            source.problems.append(texts.NO_MAPPING.format(where=f"{name}:1"))
            return source
        source.data = _Reader(loader, name, environ, source).mapping(node, ())
    except (yaml.YAMLError, RecursionError) as error:  # too deep, or an alias inside what it stands for
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        source.problems.append(texts.NOT_YAML.format(where=where, reason=_reason(error)))
    finally:
        if loader is not None:
            loader.dispose()
    return source


def _reason(error: Exception) -> str:
    """What is wrong, of the file's content no more than one character's number."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"#x{ord(error.character) if isinstance(error.character, str) else error.character:04x}: {error.reason}"
    return str(getattr(error, "problem", None) or type(error).__name__)


class _Reader:
    """Walks the node tree of one file."""

    def __init__(self, loader: _Loader, name: str, environ: Mapping[str, str], source: Source) -> None:
        self._loader, self._name, self._environ, self._source = loader, name, environ, source

    def mapping(self, node: yaml.MappingNode, path: Path_) -> dict[str, Any]:
        result: dict[str, Any] = {}
        self._source.origins.setdefault(path, self._where(node))
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._source.problems.append(texts.KEY_NOT_TEXT.format(where=self._where(key_node)))
                continue
            key = str(key_node.value)
            inner = (*path, key)
            if key in result:
                self._source.add(inner, texts.TWICE.format(where=self._where(key_node)))
                continue
            self._source.origins[inner] = self._where(key_node)
            result[key] = self._value(value_node, inner)
        return result

    def _value(self, node: yaml.Node, path: Path_) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._source.origins[(*path, index)] = self._where(item)
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: Path_) -> Any:
        text = str(node.value)
        self._source.raw[path] = text
        names = _VARIABLE.findall(text)
        if not names:
            try:
                return self._loader.construct_object(node, deep=True)
            except (yaml.YAMLError, ValueError):
                self._source.add(path, texts.UNREADABLE_VALUE)
                return text
        missing = [name for name in names if name not in self._environ]
        for name in missing:
            self._source.add(path, texts.NOT_SET.format(name=name))
        self._source.origins[path] = texts.FROM.format(where=self._where(node), names="、".join(names))
        filled = _VARIABLE.sub(lambda match: self._environ.get(match.group(1), "x" * 43), text)
        self._source.raw[path] = filled
        return filled

    def _where(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"


def dotted(path: Path_) -> str:
    """A path as a person writes it: ``tenants[0].accounts[1].secret``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text
