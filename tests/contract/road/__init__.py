"""The main road: inbox, claims, turns, dispatch, on both databases."""
