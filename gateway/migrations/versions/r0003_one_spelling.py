"""People whose ids WeCom spells in capitals keep what is theirs: owners are compared in lower case from here on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ACTIONS = """
UPDATE pending_action SET requester_id = lower(requester_id)
WHERE requester_id <> lower(requester_id)
AND conversation_id IN (SELECT id FROM conversation WHERE id_type <> 'open_id')
"""


def upgrade() -> None:
    """The owners of to-dos and reminders, and who asked for an action; open_ids stay as they are."""
    for name in ("todo", "reminder"):
        _fold(op.get_bind(), name)
    op.execute(_ACTIONS)


def _fold(connection: sa.Connection, name: str) -> None:
    """Where one person's things stood under two spellings, a number that is taken gives way to the next free one."""
    columns = ("id", "tenant_id", "owner_key", "number", "created_at_ms")
    table = sa.table(name, *(sa.column(column) for column in columns))
    spelled = table.c.owner_key != sa.func.lower(table.c.owner_key)
    rows = connection.execute(
        sa.select(table).where(spelled, table.c.owner_key.not_like("%:open_id:%")).order_by(table.c.created_at_ms, table.c.id)
    ).all()
    for row in rows:
        owner = row.owner_key.lower()
        theirs = (table.c.tenant_id == row.tenant_id, table.c.owner_key == owner)
        taken = set(connection.execute(sa.select(table.c.number).where(*theirs)).scalars())
        number = max(taken) + 1 if row.number in taken else row.number
        connection.execute(sa.update(table).where(table.c.id == row.id).values(owner_key=owner, number=number))
