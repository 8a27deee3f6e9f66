"""One test per reported failure of other systems, named by its id."""
