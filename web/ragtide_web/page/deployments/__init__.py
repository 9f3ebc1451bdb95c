"""The screen of other deployments."""
