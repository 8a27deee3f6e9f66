"""Measurements, each one JSON object."""
