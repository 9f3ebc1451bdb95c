"""What replays of metric events and of interactions share: what is selected, in which order, and how fast."""
