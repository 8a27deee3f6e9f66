"""The builtin tools for real."""
