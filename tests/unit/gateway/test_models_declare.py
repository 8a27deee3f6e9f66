"""Every text and JSON column says how long it is kept and what erasing a person does to it."""

from __future__ import annotations

import pytest
from sqlalchemy import JSON, Column, LargeBinary, Table, Text

from config.columns import row_life
from gateway.migrations.tables import METADATA

BODIES = [
    column for table in METADATA.sorted_tables for column in table.columns if isinstance(column.type, Text | JSON | LargeBinary)
]


@pytest.mark.parametrize("column", BODIES, ids=str)
def test_n_10_text_and_json_columns_declare_retention_and_erase(column: Column[object]) -> None:
    """N-10: every text, JSON and binary column declares a retention and an erase class."""
    assert column.info.get("retention") in ("row", "body", "settled"), f"{column} has no retention class"
    assert column.info.get("erase") in ("subject", "none"), f"{column} has no erase class"


@pytest.mark.parametrize("table", METADATA.sorted_tables, ids=str)
def test_n_10_tables_declare_how_long_their_rows_live(table: Table) -> None:
    """N-10: rows of every table either end, by a moment and states that the table has, or stay and say so."""
    assert "rows" in table.info, f"{table} says neither rows_end nor rows_stay"
    life = row_life(table)
    if life is not None:
        assert life.moment in table.c
        assert bool(life.settled) == ("status" in table.c), f"{table} has states; which of them are settled?"


def test_n_10_there_is_something_to_blank() -> None:
    """N-10: inbound and outbox bodies are among the columns blanked after the retention time."""
    blanked = {str(column) for column in BODIES if column.info["retention"] == "body"}
    assert {"inbound.body", "outbox_message.payload", "outbox_message.request", "message.text"} <= blanked
