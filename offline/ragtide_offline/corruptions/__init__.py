"""Spoils texts and interactions in known ways, to see which failures a labeler's numbers follow. Pure."""
