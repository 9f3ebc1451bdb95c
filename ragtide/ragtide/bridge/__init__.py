"""The bridge: interactions from a message broker into Redis; alerts, metric events and estimates to one."""
