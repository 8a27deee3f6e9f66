"""The assistant: one turn, its context, its models."""
