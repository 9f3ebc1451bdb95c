"""Publishing: one script per interaction, in batches, with known ids, and from a background thread."""
