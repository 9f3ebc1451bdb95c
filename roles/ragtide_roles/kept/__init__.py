"""Kept items and what people say about them: annotations, choices for data sets, agreement of labelers."""
