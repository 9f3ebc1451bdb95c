"""Pairs of a score and a better score: estimates that use both."""
