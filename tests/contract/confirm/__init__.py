"""One confirmation suite over SQLite and PostgreSQL."""
