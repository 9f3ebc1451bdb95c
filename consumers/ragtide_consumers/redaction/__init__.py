"""Redaction of texts: patterns, a function of the user, and the process in which they run."""
