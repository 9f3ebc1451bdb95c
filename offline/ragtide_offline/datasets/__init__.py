"""Data sets of specimens: rows that experiments and `ragtide score` read, with their provenance."""
