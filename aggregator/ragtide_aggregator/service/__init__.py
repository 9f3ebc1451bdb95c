"""The aggregator as a process: owns partitions, reads their streams, commits their state."""
