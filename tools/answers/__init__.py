"""All answers about a story, to compare two commits."""
