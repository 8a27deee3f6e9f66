"""What is due is found by account, answers apart from pushes: a long list of one account is not walked for the others'."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two partial indexes; rows that are not waiting to be sent are in neither."""
    for name, kind in (("ix_outbox_due_answers", "cause <> 'push'"), ("ix_outbox_due_pushes", "cause = 'push'")):
        where = sa.text(f"status = 'pending' AND {kind}")
        columns = ["status", "account_id", "next_attempt_at_ms"]
        op.create_index(name, "outbox_message", columns, sqlite_where=where, postgresql_where=where)
