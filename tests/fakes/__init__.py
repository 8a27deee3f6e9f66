"""Named fakes."""
