"""Benchmarks: each prints what it does and, as its last line, one JSON object. Run as ``python -m scripts.bench NAME``."""
