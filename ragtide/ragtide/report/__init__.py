"""Reports of runs: what an experiment or a replay found, as a page for people or as JSON for programs."""
