"""The screens of experiments: the list of runs, and a run with its orders."""
