"""Alembic's entry: runs the revisions on the connection that gateway.migrate opened and locked."""

from __future__ import annotations

from alembic import context

from gateway.migrations.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    compare_type=True,
    render_as_batch=False,
)
with context.begin_transaction():
    context.run_migrations()
