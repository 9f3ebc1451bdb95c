"""Settings from the environment and from a TOML file, with errors that name field, value and remedy."""
