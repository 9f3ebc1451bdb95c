"""Measures a labeler on labeled data: how well its scores agree with people's, and what they cost."""
