"""The documentation names every setting and every command; one that is added without a word fails here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from config.schema import Settings
from config.settings import load
from gateway.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.zh-CN.md")
SETTINGS_HEADINGS = {"README.md": "## Settings", "README.zh-CN.md": "## 设置"}
EXAMPLE = ROOT / "config" / "yizhan.example.yaml"
VARIABLES = re.compile(r"\$\{([A-Z_]+)\}")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every settings section inside a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    """(dotted path, key as written in YAML) of every setting below a section."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        yield f"{path}{key}", key
        for section in _models(field.annotation):
            yield from _fields(section, f"{path}{key}.")


FIELDS = sorted(set(_fields(Settings)))


def _section(readme: str) -> str:
    """The README's section on settings."""
    text = (ROOT / readme).read_text()
    return text.split(f"\n{SETTINGS_HEADINGS[readme]}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("readme", READMES)
def test_every_setting_is_in_the_readme(readme: str) -> None:
    """Each key of each section stands in code type in the settings reference."""
    words = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", _section(readme)))))
    assert [path for path, key in FIELDS if key not in words] == []


def test_every_setting_is_in_the_example() -> None:
    """The example file uses every key of every section, so it shows where each one goes."""
    used: set[str] = set()

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                used.add(f"{path}{key}")
                walk(inner, f"{path}{key}.")
        elif isinstance(value, list):
            for inner in value:
                walk(inner, path)

    walk(yaml.safe_load(EXAMPLE.read_text()), "")
    free = ("tenants.roles.", "tenants.tools.scripts.arguments.")
    used = {re.sub(r"(arguments|roles)\.[a-z_]+\.", r"\1.", path) for path in used}
    missing = [path for path, _ in FIELDS if path not in used and not path.startswith(free)]
    assert missing == []


def test_the_example_loads() -> None:
    """With its variables set it is accepted as it is, without a warning."""
    environ = {name: "x" * 12 for name in VARIABLES.findall(EXAMPLE.read_text()) if name != "NAME"}
    loaded = load(EXAMPLE, environ)
    assert loaded.warnings == ()
    assert [account.platform for account in loaded.settings.tenants[0].accounts] == ["wecom", "mp"]


def test_the_example_shows_the_defaults() -> None:
    """Where the example gives a plain value at the top or in a section of plain values, it is the default."""
    written = yaml.safe_load(EXAMPLE.read_text())
    defaults = Settings()
    for section in ("limits", "retention", "media", "worker", "admin"):
        chosen = getattr(defaults, section) if section != "admin" else defaults.admin
        for key, value in written[section].items():
            assert getattr(chosen, key) == value, f"{section}.{key}"
    for key in ("redis_url", "database_url", "qdrant_url", "callback_max_age_s", "verify_dir", "demo", "log_level", "test_clock"):
        assert getattr(defaults, key) == written[key], key


@pytest.mark.parametrize("readme", READMES)
def test_every_command_is_in_the_readme(readme: str) -> None:
    """Each command has its row in the table of commands."""
    text = (ROOT / readme).read_text()
    assert [name for name in COMMANDS if f"| `yizhan {name}" not in text] == []


def test_both_readmes_have_the_same_commands() -> None:
    """Code blocks are identical but for comments, so what is tested in one holds in the other."""
    blocks = [re.findall(r"```(?:bash|python|yaml|nginx)\n(.*?)```", (ROOT / name).read_text(), re.DOTALL) for name in READMES]
    assert blocks[0] == blocks[1]


@pytest.mark.parametrize("readme", READMES)
def test_local_links_lead_somewhere(readme: str) -> None:
    """Every link to a file of the checkout names one that is there."""
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / readme).read_text())
    assert [link for link in links if not (ROOT / link).exists() and link != "docs/demo.png"] == []
