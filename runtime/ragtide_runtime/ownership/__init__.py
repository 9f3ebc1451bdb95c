"""Ownership of partitions: leases, the sharing of partitions among processes, and the loop that owns them."""
