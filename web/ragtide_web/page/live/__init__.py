"""Changes that open pages show without being loaded again."""
