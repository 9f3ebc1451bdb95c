"""Offline evals: scoring files, replays, experiments, reports. Compositions of producers, consumers and aggregator."""
