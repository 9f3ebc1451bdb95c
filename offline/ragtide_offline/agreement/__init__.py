"""How far labelers agree with gold scores, from files."""
