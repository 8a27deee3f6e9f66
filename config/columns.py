"""What tables declare about keeping: how long their rows live, and of every text and JSON column how long it is kept and what
erasing a person does to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import JSON, BigInteger, Column, Integer, LargeBinary, Table, Text
from sqlmodel import SQLModel

Retention = Literal["row", "body", "settled"]
"""``row``: as long as its row; ``body``: blanked after ``retention.body_days``; ``settled``: blanked once its work is done."""

Erase = Literal["subject", "none"]
"""``subject``: says something by or about a person and goes when that person is erased; ``none``: names nobody."""


@dataclass(frozen=True, slots=True)
class RowLife:
    """Rows go ``retention.row_days`` after ``moment`` once their ``status`` is one of ``settled`` (empty: whatever it is)."""

    moment: str
    settled: tuple[str, ...] = ()


def rows_end(moment: str, *settled: str) -> dict[str, Any]:
    """For ``__table_args__``: rows of this table are deleted when they are old and settled (see RowLife)."""
    return {"info": {"rows": RowLife(moment, settled)}}


def rows_stay() -> dict[str, Any]:
    """For ``__table_args__``: there is a row for something that lasts; none is deleted for its age."""
    return {"info": {"rows": None}}


def row_life(table: Table) -> RowLife | None:
    """How long this table's rows live; None for ever."""
    life = table.info.get("rows")
    return life if isinstance(life, RowLife) else None


def text_column(*, retention: Retention, erase: Erase, nullable: bool = True, **options: Any) -> Column[Any]:
    """A TEXT column with its retention and erase class (N-10)."""
    return Column(Text, nullable=nullable, info={"retention": retention, "erase": erase}, **options)


def json_column(*, retention: Retention, erase: Erase, nullable: bool = True, **options: Any) -> Column[Any]:
    """A JSON column with its retention and erase class (N-10)."""
    return Column(JSON, nullable=nullable, info={"retention": retention, "erase": erase}, **options)


def bytes_column(*, retention: Retention, erase: Erase, nullable: bool = True, **options: Any) -> Column[Any]:
    """A binary column with its retention and erase class (N-10)."""
    return Column(LargeBinary, nullable=nullable, info={"retention": retention, "erase": erase}, **options)


def ms_column(*, nullable: bool = True, **options: Any) -> Column[Any]:
    """A moment: UTC epoch milliseconds."""
    return Column(BigInteger, nullable=nullable, **options)


def seq_column(*, primary_key: bool = False, nullable: bool = True) -> Column[Any]:
    """A 64-bit row number; as a primary key it counts by itself (SQLite only counts a plain INTEGER)."""
    kind = BigInteger().with_variant(Integer, "sqlite")
    if primary_key:
        return Column(kind, primary_key=True, autoincrement=True)
    return Column(kind, nullable=nullable)


def table_of(model: type[SQLModel]) -> Table:
    """The Core table of a SQLModel class."""
    return cast(Table, model.__table__)  # type: ignore[attr-defined]
