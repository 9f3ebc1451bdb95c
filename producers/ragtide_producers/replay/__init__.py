"""Publishing recorded interactions again, into a run's own streams."""
