"""Models: the wire client, the offline model, the router."""
