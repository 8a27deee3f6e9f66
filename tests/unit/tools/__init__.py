"""Unit tests of the tools."""
