"""Loads prompt files with ``@context file.md#heading`` includes that cannot leave their folder."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from config.errors import YizhanError

_INCLUDE = re.compile(r"^@context[ \t]+(?P<file>[^\s#]+)(?:#(?P<heading>.+))?[ \t]*$", re.MULTILINE)
_DEPTH = 4
_MAX_CHARS = 50_000


class PromptError(YizhanError):
    """A prompt file is missing, names something outside its folder, or includes itself."""

    code = "prompt"


@lru_cache(maxsize=64)
def load_prompt(folder: Path, name: str) -> str:
    """The text of ``folder/name`` with its includes resolved. Raises PromptError."""
    return _load(folder.resolve(), name, ())


def _load(folder: Path, name: str, trail: tuple[str, ...]) -> str:
    if name in trail or len(trail) >= _DEPTH:
        raise PromptError(f"prompt {name} includes itself or nests deeper than {_DEPTH}")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or path.suffix != ".md":
        raise PromptError(f"prompt {name} lies outside the prompts folder or is no .md file")
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        raise PromptError(f"prompt {name} cannot be read") from None
    if len(text) > _MAX_CHARS:
        raise PromptError(f"prompt {name} is longer than {_MAX_CHARS} characters")

    def include(match: re.Match[str]) -> str:
        whole = _load(folder, match["file"], (*trail, name))
        return _section(whole, match["heading"].strip(), match["file"]) if match["heading"] else whole

    return _INCLUDE.sub(include, text).strip()


def _section(text: str, heading: str, name: str) -> str:
    """What stands under a heading, up to the next one of the same or a higher level."""
    kept: list[str] = []
    level = 0
    for line in text.splitlines():
        match = re.match(r"(#{1,6})\s+(.*?)\s*$", line)
        if level and match and len(match[1]) <= level:
            break
        if level:
            kept.append(line)
        elif match and match[2] == heading:
            level = len(match[1])
    if not level:
        raise PromptError(f"prompt {name} has no heading {heading}")
    return "\n".join(kept).strip()
