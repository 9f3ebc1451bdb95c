"""The aggregator service: it owns partitions, reads their streams and commits their state."""
