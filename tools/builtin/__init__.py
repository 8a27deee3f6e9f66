"""Builtin tools, one a file."""
