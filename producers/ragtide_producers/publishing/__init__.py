"""Publishing: one call of a script per batch of a partition, with known ids, and from a background thread."""
