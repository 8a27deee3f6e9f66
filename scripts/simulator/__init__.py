"""A faithful fake of both platforms."""
