"""Detectors of change, what they compare with, and how many false alarms each may use."""
