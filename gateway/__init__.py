"""The gateway: callbacks in, answers and pushes out, nothing lost in between."""
