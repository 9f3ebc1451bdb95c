"""Reports of experiments, replays and comparisons, as text, HTML, JSON and MLflow runs."""
