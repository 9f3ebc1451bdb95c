"""The traffic: the newest scored answers."""
