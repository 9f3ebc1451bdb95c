"""The screens of the system: Redis, roles, partitions, settings and orders."""
