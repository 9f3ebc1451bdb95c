"""Two or more sides compared: experiments, configurations, labelers. Only offline evals use it."""
