"""The screen of all pipelines: state, trend and curve of each."""
