"""What is remembered: conversations, sessions, messages."""
