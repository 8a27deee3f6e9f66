"""Tools: what the assistant can do, and the confirmation before it does it."""
