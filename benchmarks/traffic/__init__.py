"""Simulated traffic of RAG applications, and the detectors that are compared on it (`make realtraffic`)."""
