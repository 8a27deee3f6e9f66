"""Skills: procedures executed step by step."""
