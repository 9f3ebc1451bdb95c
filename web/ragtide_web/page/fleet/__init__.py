"""The screen of all pipelines: the headline of each metric, its state, and the curve of a day."""
