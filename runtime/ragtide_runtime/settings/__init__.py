"""The settings, from the environment and a TOML file, with error messages that name field, value and remedy."""
