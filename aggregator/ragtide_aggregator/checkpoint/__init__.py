"""The checkpoint of a partition: its options, loading, committing, and the search for an entry that fails."""
