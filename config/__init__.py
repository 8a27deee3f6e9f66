"""Settings, errors, clock, database: the ground floor."""
