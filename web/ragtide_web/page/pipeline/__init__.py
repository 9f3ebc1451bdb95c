"""The screen of a pipeline: its estimates now, in a range of time, and by segment value."""
