"""Criteria before they are asked: checks of their words, their price, and a trial on a few interactions."""
