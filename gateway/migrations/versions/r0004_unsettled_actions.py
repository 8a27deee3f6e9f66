"""What the reaper looks for every few seconds, and one person's reminders, are found without walking whole tables."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two indexes."""
    op.create_index("ix_action_status", "pending_action", ["status", "created_at_ms"])
    op.create_index("ix_reminder_owner", "reminder", ["tenant_id", "owner_key", "status"])
