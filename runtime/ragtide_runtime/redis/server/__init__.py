"""The embedded server: its binary, its data directory, and the process that ends it with its last user."""
