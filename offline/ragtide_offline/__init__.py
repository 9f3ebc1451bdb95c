"""Offline evals: scored files, replays, experiments and reports, built from producers, consumers and aggregator."""
