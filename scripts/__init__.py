"""Programs around the product: simulator, benches, checks."""
